"""Search backends side by side: build, size, open, memory, speed, and what they find alike.

    python benchmarks/search.py ../shared/data/passages.jsonl ../shared/data/search_queries.jsonl

Every step runs in a process of its own; speed is measured in rounds in which the backends take
turns, and the median is shown. Peers: Lucene (skipped without pyserini) and the library bm25s
with the same words and parameters (skipped if it is not installed). `http` is `tir serve` on
loopback over the bm25 index. CPU seconds count all threads, and suffer least from other load.

A corpus larger than the one given is made of it: each new passage joins three of its passages,
and nine in ten of their rare words get an ending of their own, so that the vocabulary grows with
the corpus as a real one's does.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

K = 10
WIKIPEDIA = 21_015_324
"""Passages of 100 words in the corpus that the papers search."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus")
    parser.add_argument("queries")
    parser.add_argument("--sizes", default="8269,200000")
    parser.add_argument("--backends", default="bm25,http,lucene,bm25s")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", default="/tmp/tir-bench-search")
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.step:
        print(
            json.dumps(STEPS[options.step[0]](*options.step[1:], options.corpus, options.queries))
        )
        return
    backends = [name for name in options.backends.split(",") if _installed(name)]
    rows = []
    for size in map(int, options.sizes.split(",")):
        work = Path(options.work) / str(size)
        work.mkdir(parents=True, exist_ok=True)
        corpus = work / "corpus.jsonl"
        if not corpus.exists():
            write_corpus(options.corpus, size, corpus)
        rows += compare(backends, size, work, str(corpus), options.queries, options.rounds)
        show(rows)
    on_paper([row for row in rows if row["backend"] == "bm25"])


def _installed(name: str) -> bool:
    need = {"lucene": "jnius", "bm25s": "bm25s"}.get(name)
    there = need is None or importlib.util.find_spec(need) is not None
    if not there:
        print(f"{name}: skipped, {need} is not installed", file=sys.stderr)
    return there


def write_corpus(source: str, size: int, target: Path) -> None:
    """`size` passages: those of `source`, then new ones made of them; always the same."""
    with open(source, encoding="utf-8") as stream:
        texts = [json.loads(line)["contents"] for line in stream]
    df = Counter(word for text in texts for word in set(re.findall(r"\w+", text)))
    rng = random.Random(0)
    with open(target.with_suffix(".part"), "w", encoding="utf-8") as out:
        for i in range(size):
            text = texts[i] if i < len(texts) else " ".join(rng.choice(texts) for _ in range(3))
            if i >= len(texts):
                ending = f"{i // len(texts)}x"
                text = re.sub(
                    r"\w+",
                    lambda m, e=ending: m[0] + e if df[m[0]] < 5 and rng.random() < 0.9 else m[0],
                    text,
                )
            out.write(json.dumps({"id": f"p{i}", "contents": text}, ensure_ascii=False) + "\n")
    target.with_suffix(".part").replace(target)


def compare(
    backends: list[str], size: int, work: Path, corpus: str, queries: str, rounds: int
) -> list[dict[str, Any]]:
    """A row of measures for each backend."""
    rows = {name: {"backend": name, "passages": size} for name in backends}

    def step(action: str, name: str) -> dict[str, Any]:
        print(f"{size} {action} {name}", file=sys.stderr)
        command = [sys.executable, __file__, corpus, queries, "--step", action, name, str(work)]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, text=True)
        return json.loads(done.stdout.splitlines()[-1])

    for name in backends:
        if name != "http":
            rows[name] |= step("build", name)
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in backends}
    for _ in range(rounds):
        for name in backends:
            found[name].append(step("search", name))
    truth = found["lucene"][0]["hits"] if "lucene" in found else found[backends[0]][0]["hits"]
    for name, runs in found.items():
        for key in runs[0]:
            if key != "hits":
                rows[name][key] = statistics.median(run[key] for run in runs)
        hits = runs[0]["hits"]
        shares = [
            len(set(one) & set(two)) / max(len(one), len(two), 1)
            for one, two in zip(hits, truth, strict=True)
        ]
        rows[name]["overlap"] = statistics.mean(shares)
        if any(run["hits"] != hits for run in runs):
            raise SystemExit(f"{name}: the same queries found other passages in another run")
    return list(rows.values())


def build(name: str, work: str, corpus: str, _queries: str) -> dict[str, Any]:
    """Build the index of one backend, anew."""
    target = Path(work) / name
    wall = time.perf_counter()
    if name == "bm25s":
        _build_bm25s(corpus, target)
    else:
        from tircli.tools.search import indexing

        indexing.make(corpus, target, name, resume=False)
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "build_s": time.perf_counter() - wall,
        "build_cpu_s": sum(part.ru_utime + part.ru_stime for part in used),
        "build_mb": max(part.ru_maxrss for part in used) / 1024,
        "disk_mb": sum(p.stat().st_size for p in target.rglob("*") if p.is_file()) / 2**20,
    }


def _build_bm25s(corpus: str, target: Path) -> None:
    import bm25s

    from tircli.tools.search import analysis
    from tircli.tools.search import corpus as corpora

    passages = list(corpora.read(corpus))
    index = bm25s.BM25(method="lucene", k1=0.9, b=0.4)
    index.index([analysis.terms(passage.contents) for passage in passages], show_progress=False)
    index.save(str(target), corpus=[{"id": passage.id} for passage in passages])


def search(name: str, work: str, _corpus: str, queries: str) -> dict[str, Any]:
    """Open one backend, warm it, and ask all queries one by one and in batches."""
    with open(queries, encoding="utf-8") as stream:
        asked = [json.loads(line)["query"] for line in stream]
    folder = Path(work) / name
    importlib.import_module("tircli.tools.search.bm25")  # numpy and all that is the same for all
    begin = time.perf_counter()
    ask, close = {"http": _http, "bm25s": _bm25s}.get(name, _local)(folder)
    ask(["warm"])
    opened = time.perf_counter() - begin
    cold = _timed(lambda: [ask([query])[0] for query in asked])
    for _ in range(2):
        for query in asked:
            ask([query])
    single = _timed(lambda: [ask([query])[0] for query in asked])
    batched = _timed(lambda: [f for i in range(0, len(asked), 64) for f in ask(asked[i : i + 64])])
    status = Path("/proc/self/status").read_text()
    memory = {
        key: int(re.search(rf"{key}:\s+(\d+)", status)[1]) / 1024 for key in ("VmRSS", "RssAnon")
    }
    close()
    assert single[2] == batched[2] == cold[2]
    return {
        "open_s": opened,
        "rss_mb": memory["VmRSS"],
        "anon_mb": memory["RssAnon"],
        "first_cpu_ms": cold[1],
        "cpu_ms": single[1],
        "qps": 1000 / single[0],
        "batch_cpu_ms": batched[1],
        "batch_qps": 1000 / batched[0],
        "hits": single[2],
    }


def _timed(run: Callable[[], list[list[str]]]) -> tuple[float, float, list[list[str]]]:
    """Milliseconds a query on the clock and of CPU, and what was found."""
    wall, cpu = time.perf_counter(), time.process_time()
    found = run()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return 1000 * wall / len(found), 1000 * cpu / len(found), found


Ask = Callable[[list[str]], list[list[str]]]


def _local(folder: Path) -> tuple[Ask, Callable[[], None]]:
    from tircli.tools.search.indexing import open_local

    local = open_local(folder)

    def ask(queries: list[str]) -> list[list[str]]:
        return [[hit.passage.id for hit in hits] for hits in local.search(queries, K)]

    return ask, local.close


def _http(folder: Path) -> tuple[Ask, Callable[[], None]]:
    import httpx

    command = [sys.executable, "-c", "from tircli.cli import main; main()", "serve", "--port", "0"]
    command += ["--corpus", str(folder.with_name("bm25"))]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    line = next(line for line in server.stderr if "http://" in line)
    url = line.split(" on ")[1].split(" ")[0]
    client = httpx.Client(timeout=60)

    def ask(queries: list[str]) -> list[list[str]]:
        reply = client.post(url, json={"queries": queries, "topk": K, "return_scores": True})
        return [[hit["document"]["id"] for hit in hits] for hits in reply.json()["result"]]

    def close() -> None:
        server.terminate()
        server.communicate()

    return ask, close


def _bm25s(folder: Path) -> tuple[Ask, Callable[[], None]]:
    import bm25s

    from tircli.tools.search import analysis

    index = bm25s.BM25.load(str(folder), load_corpus=True, mmap=True)

    def ask(queries: list[str]) -> list[list[str]]:
        words = [analysis.terms(query) for query in queries]
        known = [[w for w in query if w in index.vocab_dict] for query in words]
        found, scores = index.retrieve(known, k=K, show_progress=False, sorted=True)
        return [
            [hit["id"] for hit, score in zip(*row, strict=True) if score > 0]
            for row in zip(found, scores, strict=True)
        ]

    return ask, lambda: None


def show(rows: list[dict[str, Any]]) -> None:
    """A table for people."""
    columns = {
        "passages": "passages",
        "backend": "backend",
        "build_s": "build s",
        "build_cpu_s": "CPU s",
        "build_mb": "peak MB",
        "disk_mb": "disk MB",
        "open_s": "open s",
        "rss_mb": "RSS MB",
        "anon_mb": "own MB",
        "first_cpu_ms": "first CPU ms/q",
        "cpu_ms": "CPU ms/q",
        "qps": "q/s",
        "batch_cpu_ms": "batch CPU ms/q",
        "batch_qps": "batch q/s",
        "overlap": f"overlap@{K}",
    }
    table = [list(columns.values())]
    for row in rows:
        table.append([_cell(key, row.get(key, "")) for key in columns])
    widths = [max(len(line[i]) for line in table) for i in range(len(columns))]
    for line in table:
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)))
    print("http: CPU of the client alone. overlap: with Lucene's, or with the first backend's.")


def _cell(key: str, value: Any) -> str:
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4f}" if key == "overlap" else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def on_paper(rows: list[dict[str, Any]]) -> None:
    """What 21 million passages would take, from the growth between the two sizes measured."""
    if len(rows) < 2:
        return
    small, large = rows[0], rows[-1]
    share = (WIKIPEDIA - large["passages"]) / (large["passages"] - small["passages"])
    print(f"on paper, bm25 with {WIKIPEDIA} passages, by the growth from {small['passages']}:")
    for key, unit in (("disk_mb", "MB disk"), ("build_cpu_s", "CPU s to build")):
        print(f"  {large[key] + share * (large[key] - small[key]):.0f} {unit}")
    for key, unit in (("cpu_ms", "CPU ms a query"), ("anon_mb", "MB memory of its own, searching")):
        print(f"  {large[key] + share * (large[key] - small[key]):.0f} {unit}")


STEPS = {"build": build, "search": search}

if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
