"""Progress: a live line on a terminal, else a plain line every 30 s; JSON lines for machines."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from tircli.budget import Counts
from tircli.records import InputError, Trajectory

JSON_SECONDS = 10.0
"""How often a line goes to the log for machines."""


class Progress:
    """Counts finished trajectories and shows them; `quiet` shows nothing."""

    def __init__(
        self, total: int | None = None, quiet: bool = False, log_json: str | None = None
    ) -> None:
        self.total, self.quiet = total, quiet
        self.done = self.calls = self.errors = self.tokens = 0
        self.counts: Counts | None = None
        """What a run uses while its trajectories are still under way; None = the finished alone."""
        self.in_flight: Callable[[], Mapping[str, int]] = dict
        """Requests under way, by server."""
        self._start = self._shown = self._logged = time.monotonic()
        self._every = 0.2 if sys.stderr.isatty() else 30.0
        self._log: TextIO | None = None
        if log_json is not None:
            try:
                self._log = open(log_json, "a", encoding="utf-8")  # noqa: SIM115 - see close
            except OSError as error:
                raise InputError(f"--log-json: {log_json}: {error.strerror}") from None

    def add(self, trajectory: Trajectory) -> None:
        """Count one finished trajectory."""
        self.done += 1
        self.calls += trajectory.calls
        self.errors += trajectory.stop == "error"
        self.tokens += trajectory.model_tokens or 0
        self.tick()

    def tick(self) -> None:
        """Show what is due."""
        now = time.monotonic()
        if now - self._shown >= self._every:
            self.show()
        if self._log is not None and now - self._logged >= JSON_SECONDS:
            self._log_line(now)

    def figures(self) -> dict[str, Any]:
        """All that is known now; rates are means since the start."""
        seconds = max(time.monotonic() - self._start, 1e-9)
        counts, rate = self.counts, self.done / seconds
        calls, tokens = (counts.calls, counts.tokens) if counts else (self.calls, self.tokens)
        left = None if self.total is None or not rate else (self.total - self.done) / rate
        figures: dict[str, Any] = {
            "seconds": round(seconds, 3),
            "done": self.done,
            "total": self.total,
            "errors": self.errors,
            "calls": calls,
            "tokens_out": tokens,
            "trajectories_per_second": rate,
            "calls_per_second": calls / seconds,
            "tokens_out_per_second": tokens / seconds,
            "seconds_left": left,
        }
        if counts is not None:
            figures |= {
                "turns": counts.turns,
                "running": counts.running,
                "tokens_in": counts.read,
                "tokens_in_per_second": counts.read / seconds,
                "in_flight": dict(self.in_flight()),
            }
        return figures

    def show(self, end: bool = False) -> None:
        """Write the line now."""
        now = self._shown = time.monotonic()
        if self._log is not None and end:
            self._log_line(now)
        if self.quiet:
            return
        live = sys.stderr.isatty()
        sys.stderr.write(
            ("\r\x1b[K" if live else "") + self._line() + ("\n" if end or not live else "")
        )
        sys.stderr.flush()

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *_: object) -> None:
        """The last line, whatever happened."""
        self.show(end=True)
        if self._log is not None:
            self._log.close()

    def _line(self) -> str:
        figures = self.figures()
        total = "" if self.total is None else f"/{self.total}"
        parts = [
            f"{self.done}{total} trajectories",
            f"{figures['trajectories_per_second']:.2f}/s",
            f"{figures['tokens_out_per_second']:.1f} tokens/s",
        ]
        if self.counts is not None:
            parts[-1] += f" out, {figures['tokens_in_per_second']:.1f} in"
        parts.append(f"{figures['calls']} calls, {figures['calls_per_second']:.2f}/s")
        if self.counts is not None:
            servers = "+".join(map(str, figures["in_flight"].values()))
            parts.append(f"{figures['running']} running" + (f" ({servers})" if servers else ""))
        parts.append(f"{self.errors} errors")
        if figures["seconds_left"]:
            parts.append(f"{_duration(figures['seconds_left'])} left")
        return ", ".join(parts)

    def _log_line(self, now: float) -> None:
        assert self._log is not None
        self._logged = now
        self._log.write(json.dumps({"time": round(time.time(), 3), **self.figures()}) + "\n")
        self._log.flush()


def _duration(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h {minutes:02}m" if hours else f"{minutes}m {rest:02}s"
