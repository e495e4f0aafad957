"""Shows that a hostile program does harm where there is no sandbox."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

from attacks_child import FLOOD, descendants
from attacks_harness import (
    BREACH,
    CHILD,
    HEALTH,
    PATIENCE,
    PLAIN_HEALTH,
    Gone,
    Lines,
    Program,
)
from attacks_trap import Trap, bait


def plain(program: Program, trap: Trap, seconds: float) -> dict[str, Any]:
    """What the program does to plain `python -c`, and to the process that started it."""
    with bait(trap) as popen:
        command = [sys.executable, str(CHILD), "control", str(seconds)]
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            **popen,
        )
    source = trap.fill(program.source, process.pid)
    try:
        out, _ = process.communicate(source.encode(), seconds + 3)
        seen = json.loads(out) if out else {"harmed": f"ended by {process.returncode}", "text": ""}
    except subprocess.TimeoutExpired:
        seen = {"harmed": "stopped", "text": ""}
    for pid in (*descendants(process.pid), process.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()
    seen["sprung"] = trap.sprung()
    seen["leaked"] = trap.secret in seen["text"]
    trap.sweep()
    return seen


def naive(program: Program, trap: Trap) -> list[str]:
    """What the program does to a naive warm worker: empty where nothing is to be seen."""
    reader, writer = os.pipe()
    with bait(trap) as popen:
        popen["pass_fds"] = (*popen["pass_fds"], writer)
        worker = Lines([sys.executable, str(CHILD), "pool", str(writer)], reader, **popen)
    os.close(writer)
    try:
        health = HEALTH if "numpy" in program.source else PLAIN_HEALTH
        healthy = worker.ask(health, PATIENCE)
        reply = worker.ask(trap.fill(program.source, worker.process.pid), 4)
        found = ["a forged report was taken"] if "FORGED" in json.dumps(reply) else []
        if len(json.dumps(reply)) > FLOOD:
            found.append("the report has no bound")
        time.sleep(0.05)  # for timers
        if worker.ask(health, 4) != healthy:
            found.append("the next call is not clean")
        return found
    except Gone as error:
        return [str(error)]
    finally:
        worker.close(patient=False)
        os.close(reader)
        trap.sprung()
        trap.sweep()


def works_without(program: Program, trap: Trap) -> str | None:
    """Why the program's control does not show its harm, or None where it does."""
    how = program.control[-1]
    if how == "pool":
        return None if naive(program, trap) else "the naive worker came to no harm"
    seen = plain(program, trap, 1.5 if how == "overruns" else 15)
    text = seen["text"]
    shown = {
        "breach": bool(
            BREACH.search(text) or seen["sprung"] or seen["leaked"] or seen.get("harmed")
        ),
        "overruns": seen.get("overran"),
        "floods": seen.get("flooded"),
        "leaves": seen.get("left"),
        "crash": (seen.get("returncode") or 0) < 0,
        "differs": how == "differs" and plain(program, trap, 15)["text"] != text,
    }
    return None if shown[how] else f"{how} is not seen: {json.dumps(seen)[:1500]}"
