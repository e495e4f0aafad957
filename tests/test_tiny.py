"""The tiny model in sample_data: its questions, and that it calls tools as it was made to."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tircli import jsonl
from tircli.judge import judge

ROOT = Path(__file__).parents[1]
SAMPLES = ROOT / "sample_data"
MODEL = SAMPLES / "tiny-tir"


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("make_tiny", ROOT / "scripts" / "make_tiny.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_script_writes_the_questions_that_are_there(script, tmp_path, capsys):
    script.write_questions(tmp_path)
    for name in ("tiny_corpus.jsonl", "tiny_train.jsonl", "tiny_test.jsonl"):
        assert (tmp_path / name).read_bytes() == (SAMPLES / name).read_bytes()


def test_no_held_out_question_is_trained_on(script):
    texts = {
        name: {q.question for q in jsonl.read(str(SAMPLES / f"tiny_{name}.jsonl"))}
        for name in ("train", "test")
    }
    demos = {record["question"] for record in script.demos(2000, "demo")}
    assert len(texts["test"]) == 500
    assert not texts["test"] & (texts["train"] | demos)


def test_demonstrations_call_needlessly_for_half_of_the_easy_questions(script):
    made = script.demos(3000, "demo")
    easy = [r for r in made if " + " in r["question"] or " plus " in r["question"]]
    called = sum(len(r["segments"]) > 2 for r in easy)
    assert called / len(easy) == pytest.approx(0.5, abs=0.05)


def test_a_demonstration_shows_what_its_program_prints(script):
    for record in script.demos(300, "demo"):
        for segment in record["segments"]:
            use = segment.get("tool")
            if use and use["name"] == "python" and use["status"] == "ok":
                code = use["input"].removeprefix("print(").removesuffix(")")
                assert str(eval(code)) == use["output"]


def test_the_folder_is_small():
    assert sum(path.stat().st_size for path in MODEL.iterdir()) < 4e6


def test_it_calls_python_and_search_and_is_mostly_right(tmp_path):
    pytest.importorskip("transformers", reason="engine hf needs tircli[local]")
    out = tmp_path / "t.jsonl"
    command = [
        *(sys.executable, "-m", "tircli.cli", "rollout", SAMPLES / "tiny_test.jsonl"),
        *("-m", MODEL, "--tools", "python,search", "--limit", "60", "-q", "-o", out),
        *("--corpus", SAMPLES / "tiny_corpus.jsonl", "--max-tokens", "200"),
    ]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    groups = list(judge(jsonl.groups(jsonl.read(str(out)))))
    found = [trajectory for group in groups for trajectory in group]
    assert {use.name for t in found for use in t.uses} == {"python", "search"}
    assert sum(t.correct or 0 for t in found) / len(found) > 0.8
    assert sum((t.judge or {})["format"] == [] for t in found) / len(found) > 0.95
    easy = [t for t in found if t.extra["level"] == "easy"]
    assert 0.2 < sum(t.calls > 0 for t in easy) / len(easy) < 0.8
