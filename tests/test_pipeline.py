"""The commands in real shells: pipes, resume after kill, bad input, exit codes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tircli import jsonl

SAMPLES = Path(__file__).parents[1] / "sample_data"
TIR = [sys.executable, "-c", "from tircli.cli import main; main()"]
ROLLOUT = [
    "rollout",
    SAMPLES / "math.jsonl",
    "--engine",
    "scripted",
    "-m",
    SAMPLES / "replies.jsonl",
]


def tir(*arguments, data: bytes | None = None):
    done = subprocess.run(
        [*TIR, *map(str, arguments)], input=data or b"", capture_output=True, timeout=120
    )
    return done.returncode, done.stdout, done.stderr.decode()


def records(data: bytes):
    found = [json.loads(line) for line in data.split(b"\n") if line]
    for record in found:
        for segment in record["segments"]:
            measured = ("seconds", "queued", "cpu_seconds", "max_rss_mb")
            segment.get("tool", {}).update(dict.fromkeys(measured, 0))
    return found


def test_rollout_judge_metrics_in_one_pipe():
    sampled = tir(*ROLLOUT, "-k", "2", "-q")
    judged = tir("judge", "-q", data=sampled[1])
    measured = tir("metrics", data=judged[1])
    assert (sampled[0], judged[0], measured[0]) == (0, 0, 0)
    result = json.loads(measured[1])
    assert (result["n"], result["questions"]) == (12, 6)
    assert result["metrics"]["correct"]["mean"] == pytest.approx(5 / 6)
    assert result["metrics"]["tp"]["mean"] == pytest.approx(10 / 8)


def test_judging_twice_equals_judging_once():
    once = tir("judge", "-q", data=tir(*ROLLOUT, "-q")[1])[1]
    assert tir("judge", "-q", data=once)[1] == once


def test_the_reader_may_go_away():
    command = " ".join(f"'{a}'" for a in [*TIR, *map(str, ROLLOUT), "-k", "200", "-q"])
    shell = f"set -o pipefail; {command} | head -c 100 >/dev/null"
    done = subprocess.run(["bash", "-c", shell], capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (141, b"")


def test_killed_and_resumed_equals_uninterrupted(tmp_path):
    slow = tmp_path / "slow.jsonl"
    with open(slow, "w") as stream:
        for line in (SAMPLES / "replies.jsonl").read_text().splitlines():
            record = json.loads(line)
            record["replies"] = [{"text": text, "seconds": 0.1} for text in record["replies"]]
            stream.write(json.dumps(record) + "\n")
    base = ["rollout", SAMPLES / "math.jsonl", "--engine", "scripted", "-m", slow, "-k", "3", "-q"]
    base = [*base, "--concurrency", "2"]
    assert tir(*base, "-o", tmp_path / "whole.jsonl")[0] == 0
    target = tmp_path / "killed.jsonl"
    for attempt in range(2):
        running = subprocess.Popen([*TIR, *map(str, base), "-o", str(target), "--resume"])
        part, wanted = tmp_path / "killed.jsonl.part", 2 * (attempt + 1)
        for _ in range(500):
            if part.exists() and part.read_bytes().count(b"\n") >= wanted:
                break
            time.sleep(0.02)
        os.kill(running.pid, signal.SIGKILL)
        running.wait()
    assert not target.exists()
    assert tir(*base, "-o", target, "--resume")[0] == 0
    whole = records((tmp_path / "whole.jsonl").read_bytes())
    assert records(target.read_bytes()) == whole


def test_resume_with_other_settings_is_refused(tmp_path):
    target = tmp_path / "out.jsonl"
    tir(*ROLLOUT, "-q", "-o", target)
    code, _, said = tir(*ROLLOUT, "-q", "-o", target, "--resume", "--seed", "7")
    assert code == 2 and "seed" in said and said.count("\n") == 1


def test_resume_redoes_records_with_errors(tmp_path):
    replies = tmp_path / "replies.jsonl"
    question = tmp_path / "q.jsonl"
    question.write_text(
        '{"id":"a","question":"?","answer":"1"}\n{"id":"b","question":"!","answer":"1"}\n'
    )
    good = '{"id":"a","replies":["<answer>\\\\boxed{1}</answer>"]}\n'
    replies.write_text(good + '{"id":"b","replies":[{"error":"500"}]}\n')
    base = ["rollout", question, "--engine", "scripted", "-m", replies, "-q", "-o"]
    assert tir(*base, tmp_path / "o.jsonl")[0] == 3
    replies.write_text(good + '{"id":"b","replies":["<answer>\\\\boxed{1}</answer>"]}\n')
    assert tir(*base, tmp_path / "o.jsonl", "--resume")[0] == 0
    assert [t.id for t in jsonl.read(str(tmp_path / "o.jsonl"))] == ["a#0", "b#0"]


def test_shards_share_the_questions():
    parts = [tir(*ROLLOUT, "-q", "--shard", f"{i}/2")[1] for i in range(2)]
    ids = sorted(r["id"] for part in parts for r in records(part))
    assert ids == [f"m{i}#0" for i in range(1, 7)]


def test_empty_input_is_empty_output():
    assert tir("judge", "-q", data=b"") == (0, b"", "")
    code, out, _ = tir("metrics", data=b"")
    assert code == 0 and json.loads(out)["n"] == 0


def test_skipped_lines_give_exit_code_3():
    data = b'{"question":"a","answer":"1","prediction":"1"}\nnonsense\n'
    code, out, said = tir("judge", "-q", "--on-error", "skip", data=data)
    assert code == 3 and records(out)[0]["correct"] == 1.0 and "stdin:2" in said


def test_fail_under_gives_exit_code_1():
    data = b'{"question":"a","answer":"1","prediction":"2"}\n'
    judged = tir("judge", "-q", data=data)[1]
    assert tir("metrics", "--fail-under", "correct=0.5", data=judged)[0] == 1
    assert tir("metrics", "--fail-under", "correct=0", data=judged)[0] == 0


def _bad_inputs(tmp):
    question = tmp / "q.jsonl"
    question.write_text('{"id":"a","question":"?"}\n')
    files = {
        "text": "hello\n",
        "number": '{"question": 3}\n',
        "none": '{"answer":"1"}\n',
        "twice": '{"id":"a","question":"?"}\n{"id":"a","question":"!"}\n',
    }
    for name, text in files.items():
        (tmp / name).write_text(text)
    scripted = ["--engine", "scripted", "-m", SAMPLES / "replies.jsonl"]
    (tmp / "empty_model").mkdir()
    return [
        (["rollout", tmp / "nope", *scripted], "no such file"),
        (["rollout", tmp, *scripted], "a directory"),
        (["rollout", tmp / "text", *scripted], "text:1: not JSON"),
        (["rollout", tmp / "number", *scripted], "number:1:"),
        (["rollout", tmp / "none", *scripted], "no question"),
        (["rollout", tmp / "twice", *scripted], "twice:2:"),
        (["rollout", question, *scripted, "--protocol", "x"], "choose one of et"),
        (
            ["rollout", question, "--engine", "x", "-m", "y"],
            "choose one of hf, openai, scripted, vllm",
        ),
        (["rollout", question, "--engine", "no.such:X", "-m", "y"], "no module"),
        (["rollout", question, *scripted, "--shard", "2/2"], "--shard"),
        (["rollout", question, *scripted, "--tools", "hammer"], "hammer"),
        (["rollout", question, *scripted], "no reply 1 for a#0"),
        (["rollout", question, "--engine", "scripted", "-m", tmp / "nope"], "no such file"),
        (["rollout", question, "--engine", "scripted"], "--model"),
        (
            ["rollout", question, *scripted, "--base-url", "http://x/v1"],
            "--base-url: engine scripted",
        ),
        (["rollout", question, *scripted, "--engine-option", "a"], "write key=value"),
        (["rollout", question, *scripted, "--engine-option", "a=1"], "scripted has no a"),
        (["rollout", question, "--engine", "openai", "-m", "y"], "--base-url"),
        (["rollout", question, *scripted, "--log-json", tmp], "--log-json"),
        (["rollout", question, *scripted, "-o", tmp / "text"], "--overwrite"),
        (["rollout", question, *scripted, "-o", tmp / "no" / "dir"], "choose another output"),
        (["rollout", question, *scripted, "--resume"], "-o"),
        (["rollout", question, *scripted, "-k", "0"], "-k"),
        (["judge", question, "--judge", "x"], "choose one of auto"),
        (["judge", question, "--on-error", "x"], "fail or skip"),
        (["metrics", question, "--fail-under", "x"], "NAME=NUMBER"),
        (["metrics", question, "--fail-under", "nope=1"], "nope"),
        (["frob"], "frob"),
    ]


@pytest.mark.parametrize("row", range(28))
def test_bad_input_is_one_line_and_exit_code_2(tmp_path, row):
    arguments, says = _bad_inputs(tmp_path)[row]
    code, out, said = tir(*arguments, "-q") if arguments[0] != "frob" else tir(*arguments)
    assert (code, said.count("\n")) == (2, 1) and says in said, (code, said)
    assert b"{" not in out or arguments[0] == "metrics"


@pytest.mark.parametrize("package", ["torch", "transformers", "vllm"])
def test_a_missing_extra_says_what_to_install(tmp_path, package):
    question = tmp_path / "q.jsonl"
    question.write_text('{"id":"a","question":"?"}\n')
    engine, extra = ("vllm", "vllm") if package == "vllm" else ("hf", "local")
    code = f"import sys; sys.modules[{package!r}] = None; from tircli.cli import main; main()"
    command = [sys.executable, "-c", code, "rollout", question, "--engine", engine, "-m", "m/n"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert f"pip install 'tircli[{extra}]'" in done.stderr


def test_the_command_line_loads_nothing_heavy():
    heavy = ["torch", "transformers", "sympy", "numpy", "vllm", "math_verify", "msgspec"]
    code = f"import sys, tircli.cli; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


@pytest.mark.parametrize("command", ["rollout", "judge", "metrics", "doctor"])
def test_every_help_has_examples_and_every_command_is_in_the_readme(command):
    code, out, _ = tir(command, "--help")
    assert code == 0 and b"Examples:" in out
    assert f"tir {command}" in (SAMPLES.parent / "README.md").read_text()


def test_doctor_tells_what_is_there():
    code, out, _ = tir("doctor")
    assert code == 0 and b"sandbox" in out
