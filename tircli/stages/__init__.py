"""The commands' bodies: options in, exit code out; each a stage between reader and writer."""

from __future__ import annotations

import sys

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
