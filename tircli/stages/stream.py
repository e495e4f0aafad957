"""Items that come slowly, worked on side by side: the input is read while replies are awaited."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Iterator, Sized
from concurrent.futures import FIRST_COMPLETED, wait
from typing import Any, TypeVar

Item = TypeVar("Item", bound=Sized)
Take = Callable[[], "Awaitable[Item | None]"]
"""The next item; None = there is no more."""


def drive(
    items: Iterator[Item], consume: Callable[[Take[Item]], Coroutine[Any, Any, None]]
) -> None:
    """Run `consume` in a thread of its own and hand it `items`, read in this one.

    So an interrupt ends a read that waits for another program; it would not in another thread.
    What `consume` raises is raised here, at the latest when the next item comes.
    """
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    queue: asyncio.Queue[Item | None] = asyncio.Queue(1)
    consumer = asyncio.run_coroutine_threadsafe(consume(queue.get), loop)
    try:
        for item in items:
            put = asyncio.run_coroutine_threadsafe(queue.put(item), loop)
            wait((put, consumer), return_when=FIRST_COMPLETED)
            if consumer.done():
                break
        else:
            asyncio.run_coroutine_threadsafe(queue.put(None), loop)
        consumer.result()
    finally:
        asyncio.run_coroutine_threadsafe(_end(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _end() -> None:
    """Cancel whatever still runs in this loop, and see it end."""
    rest = asyncio.all_tasks() - {asyncio.current_task()}
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)


async def each(
    take: Take[Item], work: Callable[[Item], Awaitable[None]], at_once: int
) -> AsyncGenerator[tuple[int, Item], None]:
    """`(number, item)` as the work on each is done; items of about `at_once` members under way."""
    running: dict[asyncio.Future[Any], tuple[int, Item]] = {}
    taking: asyncio.Future[Item | None] | None = None
    members, number, more = 0, 0, True
    try:
        while True:
            if more and taking is None and members < at_once:
                taking = asyncio.ensure_future(take())
            under_way = {*running, *(() if taking is None else (taking,))}
            if not under_way:
                return
            done, _ = await asyncio.wait(under_way, return_when=asyncio.FIRST_COMPLETED)
            if taking is not None and taking in done:
                item, taking = taking.result(), None
                more = item is not None
                if item is not None:
                    running[asyncio.ensure_future(work(item))] = (number, item)
                    members, number = members + len(item), number + 1
            for task in done & running.keys():
                task.result()
                index, item = running.pop(task)
                members -= len(item)
                yield index, item
    finally:
        rest = [*running, *(() if taking is None else (taking,))]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
