"""Calls of one trajectory that share their state: the earlier ones are run again first.

Replay keeps no process alive between calls, survives the death of a slot, and gives the same
values, as every run begins with the same seeds. What it costs is measured and bounded.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, replace

from tircli.tools.python.outcome import Limits, Outcome

KEPT = 4096
"""Sessions remembered; the one unused for longest is forgotten first."""
BUDGET = 4.0
"""Replays may take so many times the limits of one call."""
FORGOTTEN = "Note: the state of earlier calls was lost."
DROPPED = "Note: what this call changed was lost; earlier state stays."


@dataclass
class Session:
    """The programs whose effects make the state, and what they took."""

    cells: list[str] = field(default_factory=list)
    seconds: float = 0.0
    cpu_seconds: float = 0.0


class Sessions:
    """The sessions under way, by name."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, Session] = OrderedDict()
        self._gone: OrderedDict[str, None] = OrderedDict()

    def take(self, name: str, limits: Limits) -> tuple[Session, str]:
        """The session called `name`, and a note where its state had to be given up."""
        session = self._open.get(name)
        note = ""
        if session is None:
            if name in self._gone:
                del self._gone[name]
                note = FORGOTTEN
            session = self._open[name] = Session()
        elif (
            session.cpu_seconds > BUDGET * limits.cpu_seconds
            or session.seconds > BUDGET * limits.seconds
        ):
            session = self._open[name] = Session()
            note = FORGOTTEN
        self._open.move_to_end(name)
        if len(self._open) > KEPT:
            self._gone[self._open.popitem(last=False)[0]] = None
            if len(self._gone) > 16 * KEPT:
                self._gone.popitem(last=False)
        return session, note


def room(session: Session, limits: Limits) -> Limits:
    """`limits` with room for the replay, which is over where it takes far longer than before."""
    if not session.cells:
        return limits
    return replace(
        limits,
        seconds=limits.seconds + 2 * session.seconds,
        cpu_seconds=limits.cpu_seconds + 2 * session.cpu_seconds,
    )


def keep(session: Session, source: str, outcome: Outcome) -> str:
    """Add a call to its session's state; a note where it left none."""
    if outcome.status in ("ok", "error"):
        session.cells.append(source)
        session.seconds = max(session.seconds, outcome.seconds)
        session.cpu_seconds = max(session.cpu_seconds, outcome.cpu_seconds)
        return ""
    return DROPPED if outcome.status != "unavailable" else ""
