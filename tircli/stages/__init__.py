"""The commands' bodies: options in, exit code out; each a stage between reader and writer."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from tircli.records import InputError, RecordError


class Skips:
    """Counts skipped lines and says each on stderr; `action` is None where a bad line stops all."""

    def __init__(self, on_error: str) -> None:
        if on_error not in ("fail", "skip"):
            raise InputError(f'--on-error: "{on_error}"; choose fail or skip')
        self.count = 0
        self.action = self._skip if on_error == "skip" else None

    def _skip(self, error: RecordError) -> None:
        self.count += 1
        say(f"skipped: {error}")


def say(text: str) -> None:
    """One line for people, on stderr."""
    sys.stderr.write(text + "\n")


def side_file(option: str, name: str | None, overwrite: bool) -> Path | None:
    """The file that `option` names, checked before the work begins; None if it was not given."""
    if name is None:
        return None
    path = Path(name)
    if path.is_dir() or not path.parent.is_dir():
        what = "a directory" if path.is_dir() else f"{path.parent} is no directory"
        raise InputError(f"{option}: {name}: {what}; name a file")
    if path.exists() and not overwrite:
        raise InputError(f"{option}: {name}: exists; add --overwrite or choose another name")
    return path


def interruptible(work: Coroutine[Any, Any, None]) -> None:
    """Run `work`; SIGINT and SIGTERM drop what is under way, close it, raise KeyboardInterrupt.

    A second signal ends the process at once.
    """
    signals = (signal.SIGINT, signal.SIGTERM)

    async def guarded() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None
        stopped = False

        def stop() -> None:
            nonlocal stopped
            stopped = True
            for each in signals:
                loop.remove_signal_handler(each)
            task.cancel()

        for each in signals:
            loop.add_signal_handler(each, stop)
        try:
            await work
        except asyncio.CancelledError:
            if stopped:
                raise KeyboardInterrupt from None
            raise
        finally:
            for each in signals:
                loop.remove_signal_handler(each)

    asyncio.run(guarded())
