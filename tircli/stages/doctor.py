"""The body of `tir doctor`: what works on this machine, and what to install for the rest."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import platform
from collections.abc import Iterable
from typing import Any

import tircli


def run() -> int:
    """Exit code of `tir doctor`."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table("what", "state", "to do", title=f"tir {tircli.__version__}")
    for row in _findings():
        table.add_row(*map(escape, row))
    Console().print(table)
    return 0


def _findings() -> Iterable[tuple[str, str, str]]:
    yield "python", platform.python_version(), ""
    yield "cores", str(os.cpu_count()), ""
    extras = {"torch": "local", "transformers": "local", "vllm": "vllm"}
    extras |= {"matplotlib": "plot", "sklearn": "plot"}
    for package, extra in extras.items():
        there = importlib.util.find_spec(package) is not None
        yield package, "there" if there else "missing", "" if there else f"tircli[{extra}]"
    yield from _sandbox()
    yield from _search()


LAYERS = {
    "mnt": "files: a root of python's own files alone, read-only",
    "net": "network: an empty one",
    "pid": "processes: sees its own alone, all end with the call",
    "ipc": "shared memory of its own",
    "uts": "host name of its own",
    "user": "threads counted for itself",
    "uid": "a user that owns nothing",
    "caps": "no privileges",
    "no_new_privs": "no way to gain any",
    "landlock": "files: reads python's own, writes none",
    "seccomp": "system calls: a list; no processes, no network",
    "rlimits": "time, memory, file size, output",
    "subreaper": "collects what a call left, without pid",
}


def _sandbox() -> Iterable[tuple[str, str, str]]:
    """What the python sandbox has here: each layer was tried, and tested from inside."""
    from tircli.records import TirError
    from tircli.tools.python import Policy, Sandbox

    async def layers() -> dict[str, Any]:
        sandbox = Sandbox(policy=Policy(weak=True), slots=1)
        try:
            await sandbox.start()
        finally:
            await sandbox.aclose()
        return sandbox.layers

    try:
        found = asyncio.run(layers())
    except TirError as error:
        yield "sandbox", str(error), "run models that you don't trust elsewhere"
        return
    missing = Policy().missing(found)
    if missing:
        yield "sandbox", missing, "--sandbox weak runs all the same; use a container"
    else:
        yield "sandbox", "files and network are closed", ""
    for name, purpose in LAYERS.items():
        state = found.get(name)
        if isinstance(state, str):
            yield f"  {name}", state, f"missing: {purpose}"
        elif state:
            yield f"  {name}", "on" if state is True else f"on, version {state}", purpose


def _search() -> Iterable[tuple[str, str, str]]:
    """Which search backends have what they need."""
    from tircli.records import InputError
    from tircli.tools.search import lucene

    yield "search bm25", "works", ""
    try:
        lucene.jar()
        lucene.java_home()
    except InputError as error:
        yield "search lucene", "missing", str(error).removeprefix("lucene: ")
    else:
        yield "search lucene", "there", ""
    there = all(importlib.util.find_spec(name) for name in ("torch", "transformers", "faiss"))
    yield "search dense", "there" if there else "missing", "" if there else "tircli[dense]"
