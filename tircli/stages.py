"""The commands' bodies: options in, exit code out; each a stage between reader and writer."""

from __future__ import annotations

import asyncio
import importlib.util
import itertools
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator
from typing import Any

import tircli
from tircli import jsonl, protocols, registry
from tircli.progress import Progress
from tircli.records import InputError, Json, RecordError, Trajectory
from tircli.rollout import AgentLoop, Settings, expand, run

ENGINES = {
    "hf": "tircli.engines.hf:HFEngine",
    "scripted": "tircli.engines.scripted:ScriptedEngine",
}


class Skips:
    """Counts skipped lines and says each on stderr; `action` is None where a bad line stops all."""

    def __init__(self, on_error: str) -> None:
        if on_error not in ("fail", "skip"):
            raise InputError(f'--on-error: "{on_error}"; choose fail or skip')
        self.count = 0
        self.action = self._skip if on_error == "skip" else None

    def _skip(self, error: RecordError) -> None:
        self.count += 1
        _say(f"skipped: {error}")


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


def _shard(items: Iterator[Trajectory], shard: str | None) -> Iterator[Trajectory]:
    if shard is None:
        return items
    found = re.fullmatch(r"(\d+)/(\d+)", shard)
    if not found or not int(found[1]) < int(found[2]):
        raise InputError(f'--shard: "{shard}"; write i/n with i from 0 to n-1')
    return itertools.islice(items, int(found[1]), None, int(found[2]))


def _tools(names: str, protocol: protocols.Protocol, seconds: float) -> dict[str, Any]:
    tools: dict[str, Any] = {}
    for name in filter(None, names.split(",")):
        if name == "python":
            cls = registry.load("tools", "python", {"python": "tircli.tools.python:PythonTool"})
            tools[name] = cls(protocol.python, seconds=seconds)
        else:
            raise InputError(f'--tools: no tool "{name}"; choose python')
    return tools


def rollout(
    *,
    input: str,
    output: str,
    model: str,
    engine: str,
    protocol: str,
    samples: int,
    tools: str,
    temperature: float,
    top_p: float,
    max_tokens: int,
    seed: int,
    concurrency: int,
    limit: int | None,
    shard: str | None,
    final_turn: bool,
    tokens: bool,
    tool_seconds: float,
    overwrite: bool,
    resume: bool,
    on_error: str,
    quiet: bool,
) -> int:
    """Exit code of `tir rollout`."""
    skips = Skips(on_error)
    form = protocols.load(protocol)
    make_engine = registry.load("engine", engine, ENGINES)
    if not model:
        raise InputError("--model: missing; name a model folder, or replies for scripted")
    settings = Settings(max_tokens, temperature, top_p, seed, final_turn, tokens)
    made: Json = {
        "by": "rollout",
        "tir": tircli.__version__,
        "engine": engine,
        "model": model,
        "protocol": protocol,
        "temperature": temperature,
        "top_p": top_p,
        "max_tokens": max_tokens,
        "seed": seed,
    }
    questions = _shard(jsonl.read(input, skips.action), shard)
    todo = list(expand(itertools.islice(questions, limit), samples))
    with jsonl.Writer(output, overwrite=overwrite, resume=resume) as writer:
        for kept in writer.kept.values():
            if kept.made != made:
                other = {k: v for k, v in (kept.made or {}).items() if made.get(k) != v}
                raise InputError(f"--resume: {output} was made with {other}; use the same options")
        ids = [trajectory.id for trajectory in todo]
        todo = [trajectory for trajectory in todo if trajectory.id not in writer.kept]
        progress = Progress(len(todo), quiet)
        if todo:
            loop = AgentLoop(
                make_engine(model), form, _tools(tools, form, tool_seconds), settings, made
            )
            asyncio.run(_write_all(todo, loop, concurrency, writer, progress))
        writer.finish(ids)
    progress.show(end=True)
    return 3 if skips.count or progress.errors else 0


async def _write_all(
    todo: list[Trajectory],
    loop: AgentLoop,
    concurrency: int,
    writer: jsonl.Writer,
    progress: Progress,
) -> None:
    """Finish and write all: to a file as they end, to a pipe in the order of the input."""
    order, waiting = iter([trajectory.id for trajectory in todo]), {}
    expected = next(order)
    try:
        async for trajectory in run(todo, loop, concurrency):
            progress.add(trajectory)
            if writer.path is not None:
                writer.write(trajectory)
                continue
            waiting[trajectory.id] = trajectory
            while expected in waiting:
                writer.write(waiting.pop(expected))
                expected = next(order, "")
    finally:
        for tool in loop.tools.values():
            await tool.aclose()
        await loop.engine.aclose()


def judge(
    input: str,
    output: str,
    name: str,
    *,
    overwrite: bool,
    resume: bool,
    on_error: str,
    quiet: bool,
) -> int:
    """Exit code of `tir judge`."""
    from tircli.judge import judge as judge_groups

    skips = Skips(on_error)
    progress = Progress(quiet=quiet)
    with jsonl.Writer(output, overwrite=overwrite, resume=resume) as writer:
        new = (t for t in jsonl.read(input, skips.action) if t.id not in writer.kept)
        for group in judge_groups(jsonl.groups(new, _say), name):
            for trajectory in group:
                writer.write(trajectory)
                progress.add(trajectory)
        writer.finish()
    progress.show(end=True)
    return 3 if skips.count or progress.errors else 0


def metrics(
    input: str,
    by: list[str],
    limits: list[str],
    as_json: bool | None,
    seed: int,
    on_error: str,
    quiet: bool,
) -> int:
    """Exit code of `tir metrics`."""
    from tircli.metrics import fail_under, measure, table

    skips = Skips(on_error)
    wanted = dict(_limit(text) for text in limits)
    warn = (lambda text: None) if quiet else _say
    result = measure(jsonl.groups(jsonl.read(input, skips.action), warn), by=by, seed=seed)
    if as_json is False or (as_json is None and sys.stdout.isatty()):
        from rich.console import Console

        Console().print(table(result))
    else:
        stdout = jsonl.own_stdout()
        stdout.write(jsonl.encode(result))
        stdout.close()
    failed = fail_under(result, wanted)
    for line in failed:
        _say(line)
    return 1 if failed else 3 if skips.count else 0


def _limit(text: str) -> tuple[str, float]:
    name, sign, value = text.partition("=")
    try:
        if sign:
            return name, float(value)
    except ValueError:
        pass
    raise InputError(f'--fail-under: "{text}"; write NAME=NUMBER, for example correct=0.5')


def doctor() -> int:
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
