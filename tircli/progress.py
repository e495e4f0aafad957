"""Progress for people, on stderr: a live line on a terminal, else a plain line every 30 s."""

from __future__ import annotations

import sys
import time

from tircli.records import Trajectory


class Progress:
    """Counts finished trajectories and shows them; `quiet` shows nothing."""

    def __init__(self, total: int | None = None, quiet: bool = False) -> None:
        self.total, self.quiet = total, quiet
        self.done = self.calls = self.errors = self.tokens = 0
        self._start = self._shown = time.monotonic()
        self._every = 0.2 if sys.stderr.isatty() else 30.0

    def add(self, trajectory: Trajectory) -> None:
        """Count one finished trajectory."""
        self.done += 1
        self.calls += trajectory.calls
        self.errors += trajectory.stop == "error"
        self.tokens += trajectory.model_tokens or 0
        if time.monotonic() - self._shown >= self._every:
            self.show()

    def show(self, end: bool = False) -> None:
        """Write the line now."""
        if self.quiet:
            return
        self._shown = time.monotonic()
        seconds = max(self._shown - self._start, 1e-9)
        total = "" if self.total is None else f"/{self.total}"
        live = sys.stderr.isatty()
        sys.stderr.write(
            ("\r\x1b[K" if live else "")
            + f"{self.done}{total} trajectories, {self.done / seconds:.2f}/s, "
            f"{self.tokens / seconds:.1f} tokens/s, {self.calls} calls, {self.errors} errors"
            + ("\n" if end or not live else "")
        )
        sys.stderr.flush()
