"""Search calls answered inside trajectories, through `tir` in a shell; and `tir index`."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tircli.tools.search.indexing import open_backend
from tircli.tools.search.searcher import Searcher
from tircli.tools.search.server import SearchServer

SAMPLES = Path(__file__).parents[1] / "sample_data"
BAMBOOGLE = SAMPLES / "../../shared/data/bamboogle.jsonl"
TIR = [sys.executable, "-c", "from tircli.cli import main; main()"]


def tir(*arguments):
    command = [*TIR, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, timeout=120, stdin=subprocess.DEVNULL)
    return done.returncode, done.stdout, done.stderr.decode()


def rollout(*options, questions=SAMPLES / "qa.jsonl", replies=SAMPLES / "replies.jsonl"):
    base = ["rollout", questions, "--engine", "scripted", "-m", replies, "-q", "--tools", "search"]
    return tir(*base, *options)


def trajectories(data: bytes) -> list[dict]:
    return [json.loads(line) for line in data.splitlines()]


def uses(record: dict) -> list[dict]:
    return [segment["tool"] for segment in record["segments"] if segment["role"] == "tool"]


def all_found(data: bytes) -> list[list[str]]:
    return [use["found"] for record in trajectories(data) for use in uses(record)]


def texts(data: bytes) -> list[str]:
    return [part["text"] for record in trajectories(data) for part in record["segments"]]


@pytest.fixture
def corpus(tmp_path) -> Path:
    return Path(shutil.copy(SAMPLES / "corpus.jsonl", tmp_path))


@pytest.mark.parametrize(
    ("protocol", "shown"),
    [
        ("et", '<result>\n"Mercury (planet)"\nMercury is the planet closest'),
        ("search-r1", '<information>Doc 1(Title: "Mercury (planet)") Mercury is the planet'),
    ],
)
def test_a_search_call_is_answered_from_the_corpus(corpus, protocol, shown):
    code, out, said = rollout("--corpus", corpus, "--protocol", protocol)
    assert (code, said.count("\n")) == (0, 1)
    mercury, london = trajectories(out)
    assert shown in mercury["segments"][2]["text"]
    assert uses(mercury)[0]["found"][0] == "s01"
    assert uses(london)[0]["status"] == "ok"
    assert (mercury["prediction"], london["prediction"]) == ("Mercury", "London")


def test_the_same_questions_give_the_same_passages_again(corpus):
    first, second = (rollout("--corpus", corpus)[1] for _ in range(2))
    found = [
        [use["found"] for r in trajectories(out) for use in uses(r)] for out in (first, second)
    ]
    assert found[0] == found[1]


def test_topk_overrules_the_protocol(corpus):
    _, out, _ = rollout("--corpus", corpus, "--topk", "1")
    assert [len(found) for found in all_found(out)] == [1, 1]


def test_a_rollout_through_our_server_is_that_from_the_file(corpus):
    server = SearchServer(("127.0.0.1", 0), Searcher(open_backend(str(corpus))), 3)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        address = f"http://127.0.0.1:{server.server_port}/retrieve"
        _, remote, _ = rollout("--search-url", address)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    _, local, _ = rollout("--corpus", corpus)
    texts = [
        [s["text"] for r in trajectories(out) for s in r["segments"]] for out in (remote, local)
    ]
    assert texts[0] == texts[1]


def test_a_server_that_is_down_is_an_error_record_that_resume_does_again(corpus, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    target, url = tmp_path / "t.jsonl", f"http://127.0.0.1:{port}/retrieve"
    code, _, _ = rollout("--search-url", url, "-o", target)
    assert code == 3
    records = trajectories(target.read_bytes())
    assert [(r["stop"], r["error"]["type"]) for r in records] == [("error", "ToolUnavailable")] * 2
    serve = [*TIR, "serve", "--corpus", str(corpus), "--port", str(port)]
    server = subprocess.Popen(serve, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    assert any("http://" in line for line in server.stderr)
    code, _, _ = rollout("--search-url", url, "-o", target, "--resume")
    server.terminate()
    server.communicate(timeout=30)
    assert (code, [r["stop"] for r in trajectories(target.read_bytes())]) == (0, ["answer"] * 2)


def test_resume_with_another_corpus_is_refused(corpus, tmp_path):
    target = tmp_path / "t.jsonl"
    assert rollout("--corpus", corpus, "-o", target)[0] == 0
    with open(corpus, "a") as stream:
        stream.write('{"id": "new", "contents": "Another passage."}\n')
    code, _, said = rollout("--corpus", corpus, "-o", target, "--resume")
    assert (code, "was made with search" in said) == (2, True)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--tools", "python", "--corpus", "x"], "write --tools python,search"),
        ([], "no --corpus and no --search-url"),
        (["--corpus", "nowhere.jsonl"], "no such file or index"),
        (["--tools", "magic"], "choose python, search or both"),
    ],
)
def test_options_that_do_not_fit_are_one_line(options, said):
    code, out, text = rollout(*options)
    assert (code, out, text.count("\n"), said in text) == (2, b"", 1, True)


@pytest.mark.skipif(not BAMBOOGLE.exists(), reason="needs ../shared/data")
@pytest.mark.parametrize("protocol", ["et", "search-r1"])
def test_every_real_question_is_searched_for(tmp_path, protocol):
    corpus = shutil.copy(BAMBOOGLE.with_name("passages.jsonl"), tmp_path)
    replies = tmp_path / "replies.jsonl"
    with open(replies, "w") as stream:
        for line in BAMBOOGLE.read_text("utf-8").splitlines():
            record = json.loads(line)
            turns = [f"<search>{record['question']}</search>", "<answer>\\boxed{x}</answer>"]
            stream.write(json.dumps({"id": record["id"], "replies": turns}) + "\n")
    code, out, _ = rollout(
        "--corpus", corpus, "--protocol", protocol, questions=BAMBOOGLE, replies=replies
    )
    found = [uses(record) for record in trajectories(out)]
    assert (code, len(found)) == (0, 125)
    assert {(len(calls), calls[0]["status"]) for calls in found} == {(1, "ok")}
    assert all(calls[0]["found"] for calls in found)


def test_index_makes_a_folder_and_refuses_to_replace_it(corpus, tmp_path):
    target = tmp_path / "idx"
    code, out, said = tir("index", corpus, "-o", target)
    assert (code, out, said.startswith("36 passages")) == (0, b"", True)
    assert rollout("--corpus", target)[0] == 0
    code, _, said = tir("index", corpus, "-o", target)
    assert (code, "add --overwrite" in said) == (2, True)
    assert tir("index", corpus, "-o", target, "--overwrite", "-q")[0] == 0


def test_index_replaces_nothing_that_is_no_index(corpus, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    code, _, said = tir("index", corpus, "-o", tmp_path / "mine", "--overwrite")
    assert (code, "no index" in said) == (2, True)
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--backend", "magic"], "choose one of bm25, lucene, dense"),
        (["--hnsw"], "for --backend dense only"),
        (["--backend", "dense"], "no --model"),
        (["-o", "-"], "an index is a folder"),
    ],
)
def test_index_options_that_do_not_fit_are_one_line(corpus, tmp_path, options, said):
    code, _, text = tir("index", corpus, "-o", tmp_path / "idx", *options)
    assert (code, text.count("\n"), said in text) == (2, 1, True)


def test_an_unfinished_index_is_gone_on_with_or_begun_again_on_request(corpus, tmp_path):
    (tmp_path / "idx.part").mkdir()
    code, _, said = tir("index", corpus, "-o", tmp_path / "idx")
    assert (code, "--resume or --overwrite" in said) == (2, True)
    assert tir("index", corpus, "-o", tmp_path / "idx", "--resume", "-q")[0] == 0


def test_a_disk_that_is_full_is_one_line_and_leaves_no_index(tmp_path):
    corpus = tmp_path / "c.jsonl"
    with open(corpus, "w") as stream:
        for i in range(3000):
            stream.write(json.dumps({"id": str(i), "contents": f"passage {i} " * 9}) + "\n")
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (99_999, 99_999));"
    command = [sys.executable, "-c", full + TIR[2], "index", str(corpus), "-o", tmp_path / "idx"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "File too large; make room" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["c.jsonl"]
