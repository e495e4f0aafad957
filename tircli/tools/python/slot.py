"""One slot as the client sees it: a process that runs one call after the other, or is dead."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tircli.tools.python import layers, wire
from tircli.tools.python.wire import Kill, Request, Result

HERE = Path(__file__).parent
PACKAGES = [
    ("tircli", str(HERE.parents[1])),
    ("tircli.tools", str(HERE.parent)),
    ("tircli.tools.python", str(HERE)),
]
BOOT = f"""
import sys, types
sys.path[:] = [path for path in sys.path if path]
for name, folder in {PACKAGES!r}:
    sys.modules[name] = types.ModuleType(name)
    sys.modules[name].__path__ = [folder]
from tircli.tools.python.zygote import main
main(sys.argv[1])
"""
"""The packages' own __init__ are left out: the slot needs nothing of them."""
START_SECONDS = 120.0
GRACE = 2.0
"""Seconds beyond its wall limit after which a slot that doesn't answer is given up."""


class SlotDied(Exception):
    """The slot's process has gone, hangs or talks nonsense; says which."""


class SlotFailed(Exception):
    """A slot could not start; says why."""


@dataclass(frozen=True)
class Setup:
    """How a slot is built."""

    off: tuple[str, ...] = ()
    """Layers that are left out (for tests and measurements)."""
    imports: tuple[str, ...] = ()
    defaults: bool = True
    """Import numpy and sympy too, where installed."""
    scratch: int = 0
    """Bytes of the writable folder; 0 = none."""
    huge: bool = True
    steady: bool = True
    """The same addresses in every slot."""


def environment() -> dict[str, str]:
    """All that a program finds in os.environ."""
    threads = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "VECLIB_MAXIMUM")
    env = {f"{name}_NUM_THREADS": "1" for name in threads}
    if "LD_LIBRARY_PATH" in os.environ:  # some interpreters don't start without it
        env["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]
    return env | {
        "PATH": os.defpath,
        "HOME": "/nonexistent",
        "LANG": "C.UTF-8",
        "TZ": "UTC",
        "MPLBACKEND": "Agg",
        "MALLOC_ARENA_MAX": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONUTF8": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def oom_kills() -> int:
    """How many processes this machine has killed for memory; 0 where it doesn't say."""
    try:
        lines = Path("/proc/vmstat").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


class Slot:
    """A keeper, its template, and the call that runs there now."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.layers: dict[str, Any] = {}
        self.modules: dict[str, str] = {}
        self.dead = False
        self._number = 0
        self._waiting: asyncio.Future[bytes] | None = None
        self._control: socket.socket
        self._process: subprocess.Popen[bytes]

    async def start(self) -> None:
        """Start the process and wait for its hello. Raises SlotFailed."""
        loop = asyncio.get_running_loop()
        ours, theirs = socket.socketpair(socket.AF_UNIX, wire.KIND)
        config = {
            "control": theirs.fileno(),
            "off": self.setup.off,
            "imports": self.setup.imports,
            "defaults": self.setup.defaults,
            "scratch": self.setup.scratch,
            "huge": self.setup.huge,
            "steady": self.setup.steady,
        }
        with (
            tempfile.TemporaryFile() as errors,
            tempfile.TemporaryDirectory(prefix="tir-warm-") as folder,
            theirs,
        ):
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-s", "-c", BOOT, json.dumps(config)],
                    stdin=subprocess.DEVNULL,
                    stdout=errors,
                    stderr=errors,
                    pass_fds=(theirs.fileno(),),
                    cwd="/",
                    # matplotlib wants a folder while it is imported.
                    env=environment()
                    | {"MPLCONFIGDIR": folder}
                    | ({"TMPDIR": layers.SCRATCH} if self.setup.scratch else {}),
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                raise SlotFailed(f"can't start {sys.executable}: {error}") from error
            theirs.close()
            self._control = ours
            ours.setblocking(False)
            loop.add_reader(ours, self._readable)
            try:
                hello = json.loads(await self._answer(START_SECONDS))
            except (SlotDied, ValueError) as error:
                await self.close()
                errors.seek(0)
                said = errors.read().decode("utf-8", "replace").strip()[-500:]
                raise SlotFailed(said or str(error)) from error
            except BaseException:
                await self.close()
                raise
        if "error" in hello:
            await self.close()
            raise SlotFailed(hello["error"])
        self.layers, self.modules = hello["layers"], hello["modules"]

    async def call(self, request: Request, files: Sequence[int]) -> Result:
        """The result of one call. Raises SlotDied; ConnectionError where nothing was begun.

        Where the caller is cancelled the program is killed first.
        """
        self._number += 1
        request = replace(request, call=self._number)
        try:
            socket.send_fds(self._control, [wire.pack(request)], list(files))
        except OSError as error:
            self.dead = True
            raise ConnectionError(f"the slot has gone: {error}") from error
        try:
            data = await self._answer(request.seconds + GRACE)
        except asyncio.CancelledError:
            await self._abandon()
            raise
        try:
            message = wire.unpack(data, Result)
        except wire.Garbage as error:
            self.dead = True
            raise SlotDied(f"the slot sent {error}") from error
        if message.call != request.call or not isinstance(message, Result):
            self.dead = True
            raise SlotDied("the slot answered another call")
        self.dead = self.dead or bool(message.last)
        return message

    async def _abandon(self) -> None:
        """End the call under way, so that the slot can take the next one; else give it up."""
        try:
            self._control.send(wire.pack(Kill(self._number)))
            await self._answer(GRACE)
        except (OSError, SlotDied):
            self.dead = True

    async def _answer(self, seconds: float) -> bytes:
        """The next message. Raises SlotDied where none comes in time."""
        if self.dead:
            raise SlotDied("the slot has gone")
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            return await asyncio.wait_for(self._waiting, seconds)
        except asyncio.TimeoutError:
            self.dead = True
            raise SlotDied(f"the slot did not answer within {seconds:g} seconds") from None
        finally:
            self._waiting = None

    def _readable(self) -> None:
        try:
            data = self._control.recv(wire.HELLO_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.dead = True
            asyncio.get_running_loop().remove_reader(self._control)
        if self._waiting is None or self._waiting.done():
            self.dead = True  # a message that nobody asked for
        elif data:
            self._waiting.set_result(data)
        else:
            self._waiting.set_exception(SlotDied("the slot's process ended"))

    async def close(self) -> None:
        """End the slot's processes, all of them."""
        self.dead = True
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(SlotDied("the slot was closed"))
        if self._control.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._control)
            self._control.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        until = time.monotonic() + GRACE
        while self._process.poll() is None:
            if time.monotonic() > until:
                self._process.kill()
            await asyncio.sleep(0.005)
