"""What every search backend offers, and the searcher that asks one: it batches and remembers."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, Protocol

from tircli.records import ToolUnavailable
from tircli.tools.search.cache import Cache
from tircli.tools.search.corpus import Passage


class Hit(NamedTuple):
    """A passage that was found."""

    passage: Passage
    score: float | None = None
    """None where the backend tells none."""


Found = list[Hit] | ToolUnavailable
"""What came of one query of a batch; the fault where it alone was refused."""


class Local(Protocol):
    """An index in this process; one thread asks it."""

    name: str
    digest: str
    """Names what is searched: the same digest, query and k find the same."""

    def search(self, queries: list[str], k: int) -> list[list[Hit]]:
        """The `k` best passages of each query, best first, ties by id."""

    def close(self) -> None:
        """Free what it holds."""


class Backend(Protocol):
    """Something that finds passages."""

    name: str
    digest: str
    parallel: int
    """Batches it may be asked at once."""
    batch: int
    """Queries of a batch at most."""

    async def search(self, queries: list[str], k: int) -> list[Found]:
        """As `Local.search`. Raises ToolUnavailable for a fault that may pass."""

    async def aclose(self) -> None:
        """Free what it holds."""


class InThread:
    """A local index as a backend: a thread of its own keeps the event loop free."""

    parallel, batch = 1, 64

    def __init__(self, local: Local) -> None:
        self._local = local
        self.name, self.digest = local.name, local.digest
        self._thread = ThreadPoolExecutor(1, f"search-{local.name}")

    async def search(self, queries: list[str], k: int) -> list[Found]:
        """See Backend."""
        loop = asyncio.get_running_loop()
        return [*await loop.run_in_executor(self._thread, self._local.search, queries, k)]

    async def aclose(self) -> None:
        """See Backend."""
        await asyncio.get_running_loop().run_in_executor(self._thread, self._local.close)
        self._thread.shutdown()


class Answer(NamedTuple):
    """What was found for a query."""

    hits: list[Hit]
    queued: float = 0.0
    """Seconds that it waited before the backend was asked."""


class Searcher:
    """Asks a backend: what waits goes together, what was found is remembered, faults are not.

    For one event loop.
    """

    def __init__(self, backend: Backend, cache: Cache | None = None) -> None:
        self.backend, self.cache = backend, cache or Cache()
        self._waiting: deque[tuple[str, int]] = deque()
        self._asked: dict[tuple[str, int], asyncio.Future[tuple[list[Hit], float]]] = {}
        self._running: set[asyncio.Task[None]] = set()

    async def search(self, query: str, k: int) -> list[Hit]:
        """The `k` best passages, best first. Raises ToolUnavailable."""
        return (await self.find(query, k)).hits

    async def find(self, query: str, k: int) -> Answer:
        """As `search`, with the time that the query waited for others."""
        key = (self.backend.name, self.backend.digest, query, k)
        if (known := self.cache.get(key)) is not None:
            return Answer([Hit(Passage(*passage), score) for passage, score in known])
        began = time.monotonic()
        future = self._asked.get((query, k))
        if future is None:
            loop = asyncio.get_running_loop()
            future = self._asked[query, k] = loop.create_future()
            self._waiting.append((query, k))
            loop.call_soon(self._start)  # After all that ask in this turn of the loop.
        # One who asks may go away without taking the answer from the others.
        hits, started = await asyncio.shield(future)
        return Answer(hits, max(started - began, 0.0))

    async def aclose(self) -> None:
        """Drop what runs and close backend and cache."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self.backend.aclose()
        self.cache.close()

    def _start(self) -> None:
        """Ask the backend for what waits, as far as it takes more."""
        while self._waiting and len(self._running) < self.backend.parallel:
            k = self._waiting[0][1]
            batch: list[str] = []
            while self._waiting and len(batch) < self.backend.batch and self._waiting[0][1] == k:
                batch.append(self._waiting.popleft()[0])
            task = asyncio.create_task(self._ask(batch, k))
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._start()

    async def _ask(self, queries: list[str], k: int) -> None:
        """Answer all who wait for `queries`, or hand them what went wrong."""
        futures = [self._asked[query, k] for query in queries]
        started = time.monotonic()
        try:
            found = await self.backend.search(queries, k)
            for query, future, hits in zip(queries, futures, found, strict=True):
                if isinstance(hits, ToolUnavailable):
                    _fail(future, hits)
                    continue
                self.cache.put((self.backend.name, self.backend.digest, query, k), hits)
                if not future.done():
                    future.set_result((hits, started))
        except Exception as error:
            for future in futures:
                _fail(future, error)
        finally:
            for future in futures:
                future.cancel()  # Those without an answer: the task was cancelled.
            for query in queries:
                del self._asked[query, k]


def _fail(future: asyncio.Future[tuple[list[Hit], float]], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        future.exception()  # Seen: whoever asked may be gone.
