"""The body of `tir doctor`: what works on this machine, and what to install for the rest."""

from __future__ import annotations

import importlib.util
import os
import platform
from collections.abc import Iterable

import tircli


def run() -> int:
    """Exit code of `tir doctor`."""
    from rich.console import Console
    from rich.table import Table

    table = Table("what", "state", "to do", title=f"tir {tircli.__version__}")
    for row in _findings():
        table.add_row(*row)
    Console().print(table)
    return 0


def _findings() -> Iterable[tuple[str, str, str]]:
    yield "python", platform.python_version(), ""
    yield "cores", str(os.cpu_count()), ""
    for package, extra in (("torch", "local"), ("transformers", "local"), ("vllm", "vllm")):
        there = importlib.util.find_spec(package) is not None
        yield package, "there" if there else "missing", "" if there else f"tircli[{extra}]"
    yield (
        "python tool",
        "time, memory and environment limited; files and network are open",
        "run untrusted models in a container",
    )
