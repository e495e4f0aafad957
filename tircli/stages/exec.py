"""The body of `tir exec`: programs in, one result record a program out."""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

from tircli import jsonl, protocols
from tircli.records import InputError, Json, RecordError, ToolUnavailable
from tircli.stages import Skips
from tircli.tools import View
from tircli.tools.python import Outcome, PythonTool, from_options

Item = tuple[str, str, "str | None"]
"""Id, code and session."""
AHEAD = 4
"""Programs that wait for each slot, so that none is idle."""


def run(
    *,
    input: str,
    code: str | None,
    lines: bool,
    protocol: str | None,
    on_error: str,
    **options: Any,
) -> int:
    """Exit code of `tir exec`; `options` are those of the sandbox."""
    skips = Skips(on_error)
    view = protocols.load(protocol).python if protocol else View(session=True)
    if code is not None and (lines or input != "-"):
        raise InputError("-c: gives the program; leave the input and --jsonl out")
    if code is not None:
        items: Iterable[Item] = [("-c", code, None)]
    elif lines or input.endswith(".jsonl"):
        items = _items(input, skips)
    else:
        items = [(input, _program(input), None)]
    tool = from_options(view, **options)
    stdout = jsonl.own_stdout()
    failed = asyncio.run(_run_all(items, tool, stdout))
    stdout.close()
    return 3 if skips.count or failed else 0


def _program(source: str) -> str:
    """The text of one program; bytes that are no UTF-8 become U+FFFD, as python reads a file."""
    if source == "-":
        return sys.stdin.buffer.read().decode("utf-8", "replace")
    with jsonl.opened(source) as stream:
        return stream.read().decode("utf-8", "replace")


def _items(source: str, skips: Skips) -> Iterator[Item]:
    for number, (place, line) in enumerate(jsonl.lines(source)):
        try:
            record = jsonl.decode(line, place)
            if not isinstance(record, dict) or not isinstance(record.get("code"), str):
                raise RecordError(f'{place}: no "code" with a text; write {{"id","code"}} a line')
        except RecordError as error:
            if skips.action is None:
                raise
            skips.action(error)
            continue
        session = record.get("session")
        yield str(record.get("id", number)), record["code"], session and str(session)


async def _run_all(items: Iterable[Item], tool: PythonTool, stdout: BinaryIO) -> int:
    """Write one record a program, in the order of the input; how many could not run."""
    failed = 0
    source = iter(items)
    running: deque[asyncio.Task[Json]] = deque()
    turns: dict[str, asyncio.Task[Json]] = {}
    try:
        await tool.start()
        while True:
            while len(running) < AHEAD * tool.sandbox.n_slots and (item := next(source, None)):
                before = turns.get(item[2] or "")
                running.append(asyncio.create_task(_one(tool, *item, before)))
                if item[2]:
                    turns[item[2]] = running[-1]
            if not running:
                return failed
            record = await running.popleft()
            failed += record["status"] == "unavailable"
            stdout.write(jsonl.encode(record))
            stdout.flush()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        await tool.aclose()


async def _one(
    tool: PythonTool, name: str, code: str, session: str | None, before: asyncio.Task[Json] | None
) -> Json:
    """The record of one program; the one `before` it in its session comes first."""
    if before is not None:
        await asyncio.wait([before])
    try:
        output, outcome = await tool.outcome(code, session)
    except ToolUnavailable as error:  # no slot could be started again
        output, outcome = str(error), Outcome("unavailable", exception=str(error))
    return {
        "id": name,
        "status": outcome.status,
        "output": output,
        "stdout": outcome.stdout,
        "stderr": outcome.stderr,
        "value": outcome.value,
        "exception": outcome.exception,
        "seconds": round(outcome.seconds, 6),
        "cpu_seconds": round(outcome.cpu_seconds, 6),
        "queued": round(outcome.queued, 6),
        "max_rss_mb": outcome.max_rss_mb,
        "truncated": outcome.truncated,
        "layers": outcome.layers,
    }
