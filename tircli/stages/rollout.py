"""The body of `tir rollout`: questions in, trajectories out, through one agent loop."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterator
from typing import Any

import tircli
from tircli import jsonl, protocols, registry
from tircli.progress import Progress
from tircli.records import InputError, Json, Trajectory
from tircli.rollout import AgentLoop, Settings, expand
from tircli.rollout import run as run_all
from tircli.stages import Skips

ENGINES = {
    "hf": "tircli.engines.hf:HFEngine",
    "scripted": "tircli.engines.scripted:ScriptedEngine",
}


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


def run(
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
        for kept, _ in writer.settings:
            if kept != made:
                other = {k: v for k, v in (kept or {}).items() if made.get(k) != v}
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
        async for trajectory in run_all(todo, loop, concurrency):
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
