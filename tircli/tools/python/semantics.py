"""How a protocol shows an outcome to the model (SPEC 1.1): outcome and view in, text out."""

from __future__ import annotations

from tircli.tools import View
from tircli.tools.python.outcome import Outcome
from tircli.tools.python.program import clip


def show(view: View, outcome: Outcome) -> str:
    """The text that the model sees for one outcome."""
    stdout = outcome.stdout.removesuffix("\n")
    trace = (outcome.exception or "").rstrip("\n")
    if outcome.status == "timeout":
        parts = [stdout, view.timeout.format(seconds=outcome.limit)]
    elif outcome.status == "ok":
        parts = [stdout, outcome.value if view.value and outcome.value is not None else ""]
    else:
        whole = view.error.startswith("traceback")
        said = trace if whole or not trace else trace.splitlines()[-1]
        said = said or f"Error: the code ended with status {outcome.status}"
        parts = [said] if view.error.endswith("_only") else [stdout, said]
    text = "\n".join(part for part in parts if part)
    return clip(text, view.limit, view.keep, view.marker) if text else view.empty
