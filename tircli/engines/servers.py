"""Several HTTP servers as one: the least busy is asked, and what fails there is asked elsewhere.

A request that failed is sent again after a pause that grows and varies, to another server where
there is one. A server that does not answer is left alone until it answers `GET /models`.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import httpx
import msgspec

from tircli.engines.http import Busy, Down, Fault, Patience, line_of, reason, refuse, shown
from tircli.records import EngineError, TurnError

_T = TypeVar("_T")
_HOMES = 100_000
"""Trajectories whose server is remembered."""


@dataclass(eq=False)
class Server:
    """One of them."""

    url: str
    """Without a password."""
    make: Callable[[], httpx.AsyncClient]
    clients: list[httpx.AsyncClient] = field(default_factory=list)
    """Idle ones, the last used last."""
    up: bool = True
    why: str = ""
    """Why it is down."""
    in_flight: int = 0
    sent: int = 0
    finished: int = 0
    ready_at: float = 0.0
    """When it wants to be asked again."""
    down_since: float = 0.0
    lost: asyncio.Event = field(default_factory=asyncio.Event)
    """Set when what is under way there is given up."""
    reviving: asyncio.Task[None] | None = None
    checking: asyncio.Task[None] | None = None


class Servers:
    """Posts to `urls`; at most `each` requests are under way at one of them."""

    def __init__(self, urls: list[str], headers: dict[str, str], each: int, wait: Patience) -> None:
        self._wait, self._each = wait, each
        self.secret = headers.get("Authorization", "").removeprefix("Bearer ")
        context = httpx.create_ssl_context()
        how: dict[str, Any] = {
            "headers": headers,
            "verify": context,
            "timeout": httpx.Timeout(wait.first_byte_seconds, connect=wait.connect_seconds),
            # Servers close idle connections after 5 s (uvicorn); ours must not be older.
            "limits": httpx.Limits(max_connections=1, keepalive_expiry=4.0),
        }
        self.all = [
            Server(shown(url), partial(httpx.AsyncClient, base_url=url.rstrip("/"), **how))
            for url in urls
        ]
        self._homes: OrderedDict[str, Server] = OrderedDict()
        self._waiters: list[asyncio.Future[None]] = []
        self._watching: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    def in_flight(self) -> dict[str, int]:
        """Requests under way, by server."""
        return {server.url: server.in_flight for server in self.all}

    async def post(
        self, path: str, body: dict[str, Any], key: str, read: Callable[[Any], _T]
    ) -> _T:
        """What `read` makes of the JSON reply; it raises Fault to have it asked again.

        `key` names the trajectory, whose turns go to one server as long as that is free. Raises
        TurnError when all tries failed, EngineError when no server is left.
        """
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())
            for server in self.all:
                if not server.up:
                    self._down(server, server.why)
        content = msgspec.json.encode(body)
        tries, avoid, give_up = 0, None, time.monotonic() + self._wait.busy_seconds
        while True:
            server, pause = await self._taken(key, avoid), 0.0
            try:
                value = read(await self._once(server, path, content))
                server.finished += 1
                return value
            except Busy as busy:
                wait = self._wait.pause(1) if busy.seconds is None else busy.seconds
                server.ready_at = time.monotonic() + wait
                if server.ready_at > give_up:
                    raise TurnError(f"{server.url}: {busy}") from None
            except Fault as fault:
                tries, avoid = tries + 1, server
                if isinstance(fault, Down):
                    self._down(server, str(fault))
                if tries >= self._wait.tries:
                    what = f"{tries} tries failed, the last at {server.url}: {fault}"
                    raise TurnError(what) from None
                pause = self._wait.pause(tries)
            finally:
                self._free(server)
            await asyncio.sleep(pause)

    async def aclose(self) -> None:
        """Close all connections."""
        tasks = [self._watching, *(t for s in self.all for t in (s.reviving, s.checking))]
        for task in filter(None, tasks):
            task.cancel()
        await asyncio.gather(*filter(None, tasks), return_exceptions=True)
        await asyncio.gather(*self._closing)
        for server in self.all:
            for client in server.clients:
                await client.aclose()

    async def _taken(self, key: str, avoid: Server | None) -> Server:
        """A server with room, counted as busy. Raises EngineError if all are down too long."""
        while True:
            now = time.monotonic()
            room = [s for s in self.all if s.up and s.in_flight < self._each]
            free = [s for s in room if s.ready_at <= now]
            others = [s for s in free if s is not avoid] or free
            if others:
                home = self._homes.get(key)
                least = min(others, key=lambda s: (s.in_flight, s.sent))
                server = home if home in others and home is not None else least
                server.in_flight += 1
                server.sent += 1
                self._homes[key] = server
                self._homes.move_to_end(key)
                if len(self._homes) > _HOMES:
                    self._homes.popitem(last=False)
                return server
            await self._woken(min((s.ready_at for s in room), default=now + 1.0) - now)

    async def _woken(self, seconds: float) -> None:
        """Return when a server has become free, or after `seconds`."""
        down = [server for server in self.all if not server.up]
        for server in down:
            self._down(server, server.why)
        if len(down) == len(self.all):
            since = max(server.down_since for server in down)
            if time.monotonic() - since > self._wait.down_seconds:
                whys = "; ".join(f"{server.url}: {server.why}" for server in down)
                raise EngineError(f"no server answers ({whys}); go on with --resume")
        waiter = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await asyncio.wait_for(waiter, max(seconds, 0.001))
        except asyncio.TimeoutError:
            pass
        finally:
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def _free(self, server: Server) -> None:
        server.in_flight -= 1
        if self._waiters:
            self._wake(1)

    def _wake(self, count: int) -> None:
        for waiter in self._waiters[:count]:
            if not waiter.done():
                waiter.set_result(None)
        del self._waiters[:count]

    async def _once(self, server: Server, path: str, content: bytes) -> Any:
        """The JSON reply of one try. Raises Fault, TurnError or EngineError."""
        sending = asyncio.ensure_future(self._send(server, path, content))
        losing = asyncio.ensure_future(server.lost.wait())
        try:
            await asyncio.wait(
                (sending, losing),
                timeout=self._wait.total_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if sending.done():
                return sending.result()
            if losing.done():
                raise Fault(f"given up: {server.why}")
            raise Fault(f"no whole reply within {self._wait.total_seconds:g} s")
        finally:
            sending.cancel()
            losing.cancel()
            await asyncio.gather(sending, losing, return_exceptions=True)

    @asynccontextmanager
    async def _client(self, server: Server) -> AsyncIterator[httpx.AsyncClient]:
        """A client of its own for one request: a shared pool of n costs n^2 steps a request."""
        client = server.clients.pop() if server.clients else server.make()
        try:
            yield client
        except BaseException:
            # A request that broke may leave its connection taken for ever: all goes.
            closing = asyncio.create_task(client.aclose())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            raise
        server.clients.append(client)

    async def _send(self, server: Server, path: str, content: bytes) -> Any:
        headers = {"Content-Type": "application/json"}
        try:
            async with self._client(server) as client:
                response = await client.post(path, content=content, headers=headers)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Down(f"no connection ({line_of(error)})") from None
        except (httpx.TransportError, httpx.DecodingError) as error:
            self._look(server)
            raise Fault(line_of(error)) from None
        if response.status_code == 200:
            try:
                return msgspec.json.decode(response.content)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                raise Fault(f"the reply is no JSON ({error})") from None
        refuse(server.url, response, self.secret)

    def _down(self, server: Server, why: str) -> None:
        """Leave `server` alone until it answers again; what runs there is given up."""
        if server.up or server.why != why:
            server.why = why
        if server.up:
            server.up, server.down_since = False, time.monotonic()
            server.lost.set()
        if server.reviving is None:
            server.down_since = server.down_since or time.monotonic()
            server.reviving = asyncio.create_task(self._revive(server))

    async def _revive(self, server: Server) -> None:
        tries = 0
        while True:
            tries += 1
            await asyncio.sleep(self._wait.pause(tries))
            why = await self._health(server)
            if why is None:
                break
            server.why = why
        server.up, server.reviving, server.lost = True, None, asyncio.Event()
        self._wake(len(self._waiters))

    async def _health(self, server: Server) -> str | None:
        """None if `server` answers at all, else why not."""
        seconds = max(self._wait.connect_seconds, self._wait.health_seconds)
        try:
            async with self._client(server) as client:
                response = await client.get("/models", timeout=seconds)
        except (httpx.TransportError, httpx.DecodingError) as error:
            return f"no answer ({line_of(error)})"
        return reason(response, self.secret) if response.status_code >= 500 else None

    def _look(self, server: Server) -> None:
        """After a broken connection: see at once whether `server` is still there."""
        if server.up and (server.checking is None or server.checking.done()):
            server.checking = asyncio.create_task(self._check(server, 1))

    async def _check(self, server: Server, times: int) -> None:
        """Mark `server` down if it does not answer `times` in a row."""
        why: str | None = ""
        for _ in range(times):
            why = await self._health(server)
            if why is None:
                return
        if server.up:
            self._down(server, why or "")

    async def _watch(self) -> None:
        """Look at servers that have work and finish none."""
        before = {server.url: -1 for server in self.all}
        while True:
            await asyncio.sleep(self._wait.health_seconds)
            for server in self.all:
                stuck = server.in_flight and server.finished == before[server.url]
                before[server.url] = server.finished
                idle = server.checking is None or server.checking.done()
                if server.up and stuck and idle:
                    server.checking = asyncio.create_task(self._check(server, 3))
