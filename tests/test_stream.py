"""Items that come slowly, worked on side by side."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from tircli.stages.stream import drive, each

TIR = [sys.executable, "-c", "from tircli.cli import main; main()"]


def run(items, work, at_once=4, seen=None):
    """What `each` hands out of `items`, in its order."""
    seen = [] if seen is None else seen

    async def consume(take):
        async for number, item in each(take, work, at_once):
            seen.append((number, item))

    drive(iter(items), consume)
    return seen


def test_items_come_out_as_they_end_and_never_too_many_are_under_way():
    under_way = most = 0

    async def work(item):
        nonlocal under_way, most
        under_way += len(item)
        most = max(most, under_way)
        await asyncio.sleep(0.1 if item == "aa" else 0.01)
        under_way -= len(item)

    seen = run(["aa", "b", "cc", "d"], work)
    assert sorted(seen) == [(0, "aa"), (1, "b"), (2, "cc"), (3, "d")]
    # The item that is let in last may pass the limit of 4 by its size less 1.
    assert seen[0] != (0, "aa") and most <= 5


def test_no_items_are_no_work():
    assert run([], None) == []


async def at_once(item):
    pass


def test_what_is_done_comes_out_while_the_next_item_is_awaited():
    seen, told = [], threading.Event()

    async def work(item):
        told.set()

    def slowly():
        yield "a"
        assert told.wait(10)
        for _ in range(500):
            if seen:
                break
            time.sleep(0.01)
        assert seen == [(0, "a")]
        yield "b"

    assert run(slowly(), work, seen=seen) == [(0, "a"), (1, "b")]


def test_a_failure_of_the_work_stops_all():
    ended = []

    async def work(item):
        try:
            if item == "b":
                raise ValueError("b is bad")
            await asyncio.sleep(60)
        finally:
            ended.append(item)

    read = itertools.count()
    with pytest.raises(ValueError, match="b is bad"):
        run((item for item in "ab" + "c" * 1000 if next(read) >= 0), work)
    assert {"a", "b"} <= set(ended)
    # The rest of the input is not read.
    assert next(read) < 20


def test_a_failure_of_the_reader_stops_all():
    def items():
        yield "a"
        raise ValueError("line 2 is bad")

    with pytest.raises(ValueError, match="line 2 is bad"):
        run(items(), at_once)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_a_run_that_waits_for_its_input(tmp_path, sent):
    replies = tmp_path / "replies.jsonl"
    replies.write_text('{"id": "*", "replies": ["{\\"correct\\": true}"]}\n')
    options = ["--judge", "llm", "--judge-engine", "scripted", "--judge-model", str(replies)]
    running = subprocess.Popen(
        [*TIR, "judge", "-q", *options],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    for name in "ab":
        line = {"id": name, "question": "?", "answer": "1", "prediction": "2"}
        running.stdin.write(json.dumps(line).encode() + b"\n")
    running.stdin.flush()
    # The first group is known to be whole, and written, when the second begins.
    assert json.loads(running.stdout.readline())["correct"] == 1.0
    os.kill(running.pid, sent)
    running.wait(30)
    said = running.stderr.read().decode()
    for stream in (running.stdin, running.stdout, running.stderr):
        stream.close()
    assert (running.returncode, said) == (130, "interrupted; go on with --resume\n")
