"""The body of `tir rollout`: questions in, trajectories out, through one agent loop."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, aclosing
from dataclasses import asdict
from typing import Any

import tircli
from tircli import jsonl, protocols
from tircli.engines import Engine, has_ids
from tircli.engines.build import ENGINES, Builder
from tircli.progress import Progress
from tircli.records import InputError, Json, Trajectory
from tircli.rollout import AgentLoop, Budget, RunOver, Settings, expand
from tircli.rollout import run as run_all
from tircli.stages import Skips, interruptible, say
from tircli.tools import python as python_tool
from tircli.tools.search import from_options

__all__ = ["ENGINES", "run"]


def _shard(items: Iterator[Trajectory], shard: str | None) -> Iterator[Trajectory]:
    if shard is None:
        return items
    found = re.fullmatch(r"(\d+)/(\d+)", shard)
    if not found or not int(found[1]) < int(found[2]):
        raise InputError(f'--shard: "{shard}"; write i/n with i from 0 to n-1')
    return itertools.islice(items, int(found[1]), None, int(found[2]))


def _tools(
    names: str, protocol: protocols.Protocol, python: dict[str, Any], search: dict[str, Any]
) -> dict[str, Any]:
    tools: dict[str, Any] = {}
    for name in filter(None, names.split(",")):
        if name == "python":
            tools[name] = python_tool.from_options(protocol.python, **python)
        elif name == "search":
            tools[name] = from_options(protocol.search, say=say, **search)
        else:
            raise InputError(f'--tools: no tool "{name}"; choose python, search or both')
    if "search" not in tools:
        for option, value in search.items():
            if value:
                name = option.replace("_", "-")
                raise InputError(f"--{name}: no search in --tools; write --tools python,search")
    return tools


def run(
    *,
    input: str,
    output: str,
    model: str,
    engine: str,
    engine_option: list[str] | None,
    base_url: list[str] | None,
    api_key_env: str | None,
    protocol: str,
    samples: int,
    tools: str,
    temperature: float,
    top_p: float,
    max_tokens: int,
    max_turns: int | None,
    max_calls: int | None,
    max_seconds: float | None,
    run_max_tokens: int | None,
    run_max_turns: int | None,
    run_max_calls: int | None,
    run_max_seconds: float | None,
    max_errors: int | None,
    seed: int,
    concurrency: int,
    limit: int | None,
    shard: str | None,
    final_turn: bool,
    tokens: bool,
    tool_seconds: float,
    tool_cpu_seconds: float,
    tool_memory_mb: int,
    sandbox: str,
    sandbox_url: str | None,
    sandbox_import: str,
    overwrite: bool,
    resume: bool,
    on_error: str,
    quiet: bool,
    log_json: str | None,
    **search: Any,
) -> int:
    """Exit code of `tir rollout`; `search` are the options of the search tool."""
    skips = Skips(on_error)
    form = protocols.load(protocol)
    builder = Builder(
        engine,
        model,
        engine_option or [],
        base_urls=base_url or [],
        api_key_env=api_key_env,
        concurrency=concurrency,
    )
    settings = Settings(
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=top_p,
        seed=seed,
        final_turn=final_turn,
        tokens=tokens,
        max_turns=max_turns,
        max_calls=max_calls,
        max_seconds=max_seconds,
    )
    budget = Budget(run_max_turns, run_max_calls, run_max_tokens, run_max_seconds, max_errors)
    made: Json = {
        "by": "rollout",
        "tir": tircli.__version__,
        "engine": engine,
        "model": model,
        **({"engine_options": builder.made} if builder.made else {}),
        "protocol": protocol,
        "tools": sorted(filter(None, tools.split(","))),
        "tool_seconds": tool_seconds,
        "tool_cpu_seconds": tool_cpu_seconds,
        "tool_memory_mb": tool_memory_mb,
        "sandbox": sandbox_url or sandbox,
        **({"sandbox_import": sandbox_import} if sandbox_import else {}),
        **_made(settings),
    }
    questions = list(itertools.islice(_shard(jsonl.read(input, skips.action), shard), limit))
    order = [trajectory.id for trajectory in expand(questions, samples)]
    with ExitStack() as stack:
        unused = stack.enter_context(ExitStack())
        python = {
            "seconds": tool_seconds,
            "cpu_seconds": tool_cpu_seconds,
            "memory_mb": tool_memory_mb,
            "sandbox": sandbox,
            "sandbox_url": sandbox_url,
            "sandbox_import": sandbox_import,
        }
        chosen = _tools(tools, form, python, search)
        unused.callback(lambda: asyncio.run(_closed(chosen)))
        if "search" in chosen:
            made["search"] = chosen["search"].made
        writer = stack.enter_context(
            jsonl.Writer(output, overwrite=overwrite, resume=resume, ordered=True)
        )
        _check_same_run(writer, made, samples, order, output)
        todo = (t for t in expand(questions, samples) if t.id not in writer.kept)
        total = len(order) - len(writer.kept)
        progress = stack.enter_context(Progress(total, quiet, log_json))
        if total:
            model_engine = builder.build()
            unused.callback(lambda: asyncio.run(model_engine.aclose()))
            _check_ids(writer, model_engine, made, output)
            loop = AgentLoop(
                model_engine, form, chosen, settings, made, budget=budget, long_prompts=on_error
            )
            unused.pop_all()  # From here on the work closes them, in its own event loop.
            try:
                interruptible(_write_all(todo, order, loop, concurrency, writer, progress))
            except RunOver as over:
                remedy = "go on with --resume" if writer.path else "name a file with -o to go on"
                say(f"{over}; {progress.done} of {total} trajectories are done; {remedy}")
                return 3
        writer.finish(order)
    return 3 if skips.count or progress.errors else 0


def _made(settings: Settings) -> Json:
    """What of the settings stands in each record; limits that were not set do not."""
    ours = asdict(settings)
    for name in ("top_logprobs", "tool_tries"):
        del ours[name]
    return {key: value for key, value in ours.items() if value is not None}


def _check_same_run(
    writer: jsonl.Writer, made: Json, samples: int, order: list[str], output: str
) -> None:
    """Raise InputError unless what `writer` kept is a part of this run."""
    for kept, k in writer.settings:
        mine = made | {"samples": samples}
        theirs = (kept or {}) | {"samples": samples if k is None else k}
        theirs.pop("ids", None)  # Known once the servers have been asked: see _check_ids.
        theirs.pop("layers", None)  # Known once the sandbox has started.
        if theirs != mine:
            keys = [key for key in {**theirs, **mine} if theirs.get(key) != mine.get(key)]
            was = ", ".join(f"{key} {theirs.get(key)!r}" for key in keys)
            raise InputError(f"--resume: {output} was made with {was}; use the same options")
    others = writer.kept.difference(order)
    if others:
        raise InputError(
            f"--resume: {output} holds {min(others)}, which this run does not make; "
            "use the same input, --limit and --shard"
        )


def _check_ids(writer: jsonl.Writer, engine: Engine, made: Json, output: str) -> None:
    """Put into `made` that there are no ids. Raises InputError if the kept records differ."""
    if not has_ids(engine):
        made["ids"] = False
        say(f"records without token ids: {getattr(engine, 'why_no_ids', '')}")
    for kept, _ in writer.settings:
        if (kept or {}).get("ids", True) != has_ids(engine):
            now = "gives them" if has_ids(engine) else "gives none"
            raise InputError(
                f"--resume: {output} was made {'without' if has_ids(engine) else 'with'} token "
                f"ids and the engine now {now}; see --engine-option ids"
            )


async def _closed(tools: Mapping[str, Any]) -> None:
    for tool in tools.values():
        await tool.aclose()


async def _write_all(
    todo: Iterator[Trajectory],
    order: list[str],
    loop: AgentLoop,
    concurrency: int,
    writer: jsonl.Writer,
    progress: Progress,
) -> None:
    """Finish and write all: to a file as they end, to a pipe in the order of the input."""
    progress.counts = loop.counts
    progress.in_flight = getattr(loop.engine, "in_flight", dict)
    at_once = concurrency * getattr(loop.engine, "servers", 1)
    ticking = asyncio.create_task(_ticking(progress))
    waiting: dict[str, Trajectory] = {}
    expected = iter(order)
    following = next(expected)
    try:
        if any(call["tool"] == "python" for call in loop.protocol.calls) and "python" in loop.tools:
            loop.made["layers"] = await loop.tools["python"].start()  # type: ignore[attr-defined]
        async with aclosing(run_all(todo, loop, at_once)) as finished:
            async for trajectory in finished:
                progress.add(trajectory)
                if writer.path is not None:
                    writer.write(trajectory)
                    continue
                waiting[trajectory.id] = trajectory
                while following in waiting:
                    writer.write(waiting.pop(following))
                    following = next(expected, "")
    except RunOver:
        for identity in filter(waiting.__contains__, order):
            writer.write(waiting[identity])
        raise
    finally:
        ticking.cancel()
        await _closed(loop.tools)
        await loop.engine.aclose()


async def _ticking(progress: Progress) -> None:
    while True:
        await asyncio.sleep(0.2)
        progress.tick()
