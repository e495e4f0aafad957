#!/usr/bin/env python
"""Speed and peak memory of metrics, judge and pareto beside plain json and pandas.

    python benchmarks/metrics.py [-n 100000] [--tokens 300] [--peer-python PYTHON_WITH_PANDAS]

Makes qa trajectories (8 a question, 0-4 calls each, prompt 150 and result 60 tokens; `--tokens`
the model's, 0 = no ids and log-probabilities) in a temporary folder (TMPDIR), then runs each
command as a process of its own, interleaved, `--rounds` times, on n/4 and on n trajectories: memory
that does not grow shows there. Best times and greatest peak are printed;
on a busy machine CPU seconds tell more. The peers, written in the
plainest way:

- `json loop`: json.loads a line, sums of correct and calls (no checks, no intervals);
- `pandas`: read_json in chunks of 1000 lines, the same two means;
- `json judge`: json.loads, exact match by lower case, json.dumps to a file.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

JSON_LOOP = """
import json, sys
n = correct = calls = 0
for line in open(sys.argv[1], encoding="utf-8"):
    record = json.loads(line)
    n += 1
    correct += record["correct"]
    calls += sum("tool" in segment for segment in record["segments"])
print(correct / n, calls / n)
"""
PANDAS = """
import sys
import pandas as pd
n = correct = calls = 0
for chunk in pd.read_json(sys.argv[1], lines=True, chunksize=1000):
    n += len(chunk)
    correct += chunk["correct"].sum()
    calls += chunk["segments"].map(lambda s: sum("tool" in x for x in s)).sum()
print(correct / n, calls / n)
"""
JSON_JUDGE = """
import json, sys
with open(sys.argv[2], "w", encoding="utf-8") as out:
    for line in open(sys.argv[1], encoding="utf-8"):
        record = json.loads(line)
        golds = [gold.lower() for gold in record["answer"]]
        record["correct"] = float((record["prediction"] or "").lower() in golds)
        out.write(json.dumps(record) + "\\n")
"""
WORDS = (
    "the",
    "river",
    "was",
    "first",
    "crossed",
    "in",
    "winter",
    "by",
    "traders",
    "without",
    "map",
)


def text(rng: random.Random, tokens: int) -> str:
    return " ".join(rng.choices(WORDS, k=tokens))


def ids(rng: random.Random, n: int) -> list[int]:
    return [rng.randrange(150_000) for _ in range(n)]


def logprobs(rng: random.Random, n: int) -> list[float]:
    return [-round(rng.expovariate(3), 7) for _ in range(n)]


def segment(rng: random.Random, role: str, n: int, with_ids: bool) -> dict:
    found: dict = {"role": role, "text": text(rng, n)}
    if with_ids:
        found["token_ids"] = ids(rng, n)
        if role == "model":
            found["logprobs"] = logprobs(rng, n)
    return found


def make(path: Path, n: int, tokens: int, k: int = 8) -> None:
    """`n` trajectories at `path`, drawn from 2000 different bodies."""
    rng = random.Random(0)
    bodies = []
    for _ in range(2000):
        calls = rng.choice([0, 1, 1, 2, 2, 3, 4])
        parts = [segment(rng, "prompt", 150, tokens > 0)]
        for turn in range(calls + 1):
            parts.append(segment(rng, "model", (tokens or 300) // (calls + 1), tokens > 0))
            if turn < calls:
                status = rng.choices(["ok", "error", "timeout"], [90, 8, 2])[0]
                tool = {"name": "search", "input": text(rng, 6), "output": text(rng, 60)}
                parts.append(segment(rng, "tool", 60, tokens > 0) | {"tool": tool})
                parts[-1]["tool"] |= {"status": status, "seconds": 0.0123, "queued": 0.0}
        bodies.append(json.dumps(parts, separators=(",", ":")))
    with open(path, "w", encoding="utf-8") as out:
        for i in range(n):
            group, sample = divmod(i, k)
            right = rng.random() < (group % 10) / 10
            head = {"schema": 1, "id": f"q{group}#{sample}", "group": f"q{group}", "sample": sample}
            head |= {"k": k, "question": "Who crossed the river first?", "answer": ["the traders"]}
            head |= {"task": "qa", "stop": "answer", "prediction": "Traders" if right else "a map"}
            head |= {"correct": float(right), "judge": {"name": "qa", "why": "em", "em": right}}
            head |= {
                "made": {"by": "rollout", "engine": "hf", "model": "m", "protocol": "search-r1"}
            }
            line = json.dumps(head, separators=(",", ":"))
            out.write(f'{line[:-1]},"segments":{rng.choice(bodies)}}}\n')


def run(command: list[str]) -> tuple[float, float, float]:
    """Seconds, seconds of CPU and peak MB of one process."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"benchmark: {command[:4]} gave {child.returncode}")
    cpu = usage.ru_utime + usage.ru_stime
    return time.perf_counter() - start, cpu, usage.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-n", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--peer-python", help="a python that has pandas; else it is left out")
    parser.add_argument("--only", help="some of the rows, by comma, for example 'tir metrics'")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="tir-benchmark-"))
    try:
        compare(folder, options)
    finally:
        shutil.rmtree(folder)


def compare(folder: Path, options: argparse.Namespace) -> None:
    tir = [sys.executable, "-c", "from tircli.cli import main; main()"]
    out = str(folder / "out.jsonl")
    best: dict[tuple[str, int], tuple[float, ...]] = {}
    files = {n: folder / f"{n}.jsonl" for n in (options.n // 4, options.n)}
    for n, path in files.items():
        make(path, n, options.tokens)
    for _ in range(options.rounds):
        for n, path in files.items():
            commands = {
                "tir metrics": [*tir, "metrics", str(path), "--json"],
                "json loop": [sys.executable, "-c", JSON_LOOP, str(path)],
                "tir pareto": [*tir, "pareto", str(path), "--keep", "100", "-q"],
                "tir judge": [*tir, "judge", str(path), "-o", out, "--overwrite", "-q"],
                "json judge": [sys.executable, "-c", JSON_JUDGE, str(path), out],
            }
            if options.peer_python:
                commands["pandas"] = [options.peer_python, "-c", PANDAS, str(path)]
            chosen = options.only.split(",") if options.only else list(commands)
            for name, command in ((name, commands[name]) for name in chosen):
                got = run(command)
                old = best.get((name, n), got)
                best[name, n] = (*map(min, got[:2], old[:2]), max(got[2], old[2]))
    header = ("what", "trajectories", "MB", "seconds", "CPU s", "MB/CPU s", "peak MB")
    print("{:12} {:>12} {:>7} {:>8} {:>8} {:>8} {:>8}".format(*header))
    for (name, n), (seconds, cpu, peak) in sorted(best.items()):
        size = files[n].stat().st_size / 1e6
        cells = f"{size:7.0f} {seconds:8.2f} {cpu:8.2f} {size / cpu:8.1f} {peak:8.1f}"
        print(f"{name:12} {n:12} {cells}")
    if not options.peer_python:
        print("pandas: left out; give --peer-python")


if __name__ == "__main__":
    main()
