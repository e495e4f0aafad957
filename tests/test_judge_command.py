"""`tir judge`: rewards, a model as judge, resume, report and audit, through the command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from tircli.cli import app
from tircli.stages.calls_table import CallsTable

TIR = [sys.executable, "-c", "from tircli.cli import main; main()"]
LLM = ["--judge", "llm", "--judge-engine", "scripted", "--judge-model", os.devnull]
YES, NO = '{"correct": true}', '{"correct": false}'


def record(question: str, sample: int, prediction, *, calls=0, stop="answer", **more) -> dict:
    tool = {"name": "python", "input": "1", "output": "1", "status": "ok"}
    segments = [
        {"role": "prompt", "text": "?"},
        {"role": "model", "text": "<think>x</think>", "token_ids": [2, 2]},
        *({"role": "tool", "text": "1", "tool": tool} for _ in range(calls)),
    ]
    name = {"id": f"{question}#{sample}", "group": question, "sample": sample, "k": 2}
    values = {"question": "2+2?", "answer": "4", "stop": stop, "prediction": prediction}
    return name | values | more | {"made": {"protocol": "et"}, "segments": segments}


def save(path, records) -> str:
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return str(path)


def load(path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def tir(tmp_path, capsys):
    """`tir judge` with options: exit code, the records of out.jsonl, stderr."""

    def run(records, *options, source=None):
        given = source or save(tmp_path / "in.jsonl", records)
        target = tmp_path / "out.jsonl"
        command = ["judge", given, "-o", str(target), *map(str, options)]
        code = app(command, standalone_mode=False)
        return code, load(target) if target.exists() else [], capsys.readouterr().err

    return run


@pytest.fixture
def model(tmp_path):
    """The options of a scripted judge."""

    def make(**replies):
        path = tmp_path / "replies.jsonl"
        lines = [{"id": k.replace("_", "#"), "replies": v} for k, v in replies.items()]
        save(path, lines)
        return ["--judge-engine", "scripted", "--judge-model", path]

    return make


GROUPS = [
    record("a", 0, "4", calls=2),
    record("a", 1, "4", calls=1),
    record("b", 0, "4", calls=1),
    record("b", 1, "5"),
]


def test_rewards_and_their_parts_are_written(tir):
    code, found, said = tir(GROUPS, "--reward", "otc-grpo", "--otc-c", 4)
    assert code == 0 and "4 graded, correct 0.75" in said
    # n of a is 1: sin(2 pi / 3) for 2 calls
    assert [r["reward"] for r in found] == [pytest.approx(0.8660, abs=5e-5), 1, 1, 0]
    parts = {"correct": 1, "tool": found[0]["reward"], "format": 0, "c": 4, "n": 1}
    assert found[0]["reward_parts"] == parts


@pytest.mark.parametrize("reward", ["otc-grpo", "et", "otc-ppo", "correct"])
def test_judging_twice_equals_judging_once(tir, tmp_path, reward):
    table = ["--calls-table", tmp_path / "n.json"] if reward == "otc-grpo" else []
    options = ["--reward", reward, *table]
    _, once, _ = tir(GROUPS, *options)
    assert once[0]["reward"] is not None
    assert tir(once, *options, "--overwrite")[1] == once


def test_re_judging_touches_nothing_but_the_verdict(tir):
    before = record("a", 0, "5", meta={"mine": 1}, extra_key=[1, None])
    _, (first,), _ = tir([before])
    assert {k: v for k, v in first.items() if k not in ("correct", "judge", "schema")} == {
        k: v for k, v in (before | {"task": "math"}).items()
    } | {"segments": first["segments"]}
    assert [s["text"] for s in first["segments"]] == [s["text"] for s in before["segments"]]


def test_a_reward_that_rests_on_another_verdict_is_dropped(tir):
    _, rewarded, _ = tir(GROUPS, "--reward", "correct")
    wrong = [r | {"answer": "5"} if r["group"] == "b" else r for r in rewarded]
    _, found, _ = tir(wrong, "--overwrite")
    assert [r.get("reward") for r in found] == [1, 1, None, None]


def test_failed_records_have_no_reward_and_count_in_no_mean(tir):
    records = [*GROUPS[:2], record("b", 0, None, stop="error", calls=5), record("b", 1, "4")]
    code, found, said = tir(records, "--reward", "et", "--et-sigma-len", 0)
    assert code == 3 and "1 with errors" in said
    assert "reward" not in found[2] and found[3]["reward"] == pytest.approx(0.25 - 1)


def test_a_record_that_can_have_no_reward_stops_the_run_or_is_skipped(tir):
    records = [record("a", 0, "4"), record("a", 1, "4")]
    del records[0]["made"]
    code, found, said = tir(records, "--reward", "otc-ppo")
    assert code == 2 and 'trajectory "a#0": no reward' in said and said.count("\n") == 1
    options = ["--reward", "otc-ppo", "--on-error", "skip", "--overwrite"]
    code, found, said = tir(records, *options)
    assert code == 3 and [r.get("reward") for r in found] == [None, 1]


def test_the_calls_table_goes_from_run_to_run(tir, tmp_path):
    table = tmp_path / "n.json"
    options = ["--reward", "otc-grpo", "--calls-table", table, "--overwrite"]
    tir([record("a", 0, "4", calls=1)], *options)
    assert json.loads(table.read_text()) == {"a": 1}
    _, (found,), _ = tir([record("a", 0, "4", calls=2)], *options)
    assert found["reward"] == pytest.approx(0.8660, abs=5e-5)
    tir([record("b", 0, "4", calls=0), record("b", 1, "4", calls=3)], *options)
    assert json.loads(table.read_text()) == {"a": 1, "b": 0}


def test_two_runs_at_once_lower_one_calls_table(tmp_path):
    path = tmp_path / "n.json"
    path.write_text('{"a": 5, "b": 5}')
    first, second = CallsTable(str(path)), CallsTable(str(path))
    first.table.observe("a", 1)
    second.table.observe("b", 2)
    first.save()
    second.save()
    assert json.loads(path.read_text()) == {"a": 1, "b": 2}
    assert sorted(p.name for p in tmp_path.iterdir()) == ["n.json"]


def test_a_failed_run_leaves_the_calls_table_alone(tir, tmp_path):
    table = tmp_path / "n.json"
    table.write_text('{"a": 1}')
    bad = record("a", 0, "4")
    del bad["made"]
    options = ["--reward", "otc-grpo", "--calls-table", table]
    assert tir([bad], *options)[0] == 2
    assert table.read_text() == '{"a": 1}'


@pytest.mark.parametrize("text", ["[1]", '{"a": -1}', '{"a": "x"}', "nonsense", '{"a": 1.5}'])
def test_a_calls_table_of_something_else_is_refused(tir, tmp_path, text):
    table = tmp_path / "n.json"
    table.write_text(text)
    code, _, said = tir(GROUPS, "--reward", "otc-grpo", "--calls-table", table)
    assert code == 2 and "n.json" in said and said.count("\n") == 1


def test_a_calls_table_that_cannot_be_read_or_written_is_one_line(tir, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "n.json.new").mkdir()  # Stands where the new table is written.
    for name in ("no/such/n.json", "folder", "n.json"):
        table = ["--calls-table", tmp_path / name]
        code, _, said = tir(GROUPS, "--reward", "otc-grpo", *table, "-q", "--overwrite")
        assert code == 2 and "--calls-table" in said and said.count("\n") == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--judge", "llm"], "--judge llm: needs --judge-model"),
        (["--second-opinion"], "--second-opinion: needs --judge-model"),
        (["--redundancy"], "--redundancy: needs --judge-model"),
        (["--judge-model", "x"], "nothing asks it"),
        (["--votes", "3"], "--votes: nothing reads it"),
        (["--judge", "llm", "--second-opinion", "--judge-model", "x"], "choose a rule judge"),
        (["--judge", "llm", "--judge-model", "x", "--judge-url", "u"], "--judge-url"),
        (
            ["--judge", "llm", "--judge-model", "x", "--judge-engine", "openai"],
            "--judge-url: missing",
        ),
        ([*LLM, "--prompt", "wrong"], '--prompt: no "wrong"; choose one of correct, redundant'),
        ([*LLM, "--prompt", "redundant"], '"user" must be a text with {{prediction}}'),
        ([*LLM, "--redundancy-prompt", "no.toml"], '--redundancy-prompt: no "no.toml"'),
        ([*LLM[:-1], "no-such-replies"], "no-such-replies"),
        (["--judge", "wrong"], "choose one of auto, exact, math, qa"),
        (["--reward", "wrong"], "choose one of correct, et, otc-grpo, otc-ppo"),
        (["--otc-c", "3"], "--otc-c: nothing reads it"),
        (["--reward", "et", "--et-gain", "nan"], "--et-gain: nan"),
        (["--calls-table", "x"], "--calls-table: nothing reads it"),
        (["--reward", "otc-grpo", "--otc-n", "local", "--calls-table", "x"], "--calls-table"),
        (["--report", "/no/such/dir/x"], "--report"),
    ],
)
def test_options_that_clash_are_one_line_and_code_2(tir, options, said):
    code, _, told = tir(GROUPS, *options)
    assert code == 2 and said in told and told.count("\n") == 1


def test_a_model_judges_and_the_record_says_how(tir, model):
    options = [*model(a_0=[YES], a_1=[NO]), "--judge", "llm"]
    code, found, _ = tir(GROUPS[:2], *options)
    assert code == 0 and [r["correct"] for r in found] == [1.0, 0.0]
    assert found[0]["judge"]["name"] == "llm"
    made = found[0]["judge"]["made"]
    assert (made["judge"], made["engine"]) == ("llm", "scripted")


def test_an_unclear_model_leaves_null_and_coverage_says_so(tir, model, tmp_path):
    report = tmp_path / "report.json"
    replies = model(a_0=["?", "hm"], a_1=[NO], b_0=["", YES], b_1=["?", "?"])
    code, found, said = tir(GROUPS, *replies, "--judge", "llm", "--report", report)
    assert [r["correct"] for r in found] == [None, 0.0, 1.0, None]
    assert code == 0 and "2 graded, correct 0.5; 2 ungraded (2 no verdict)" in said
    told = json.loads(report.read_text())
    assert (told["n"], told["graded"], told["ungraded"], told["coverage"]) == (4, 2, 2, 0.5)
    assert told["llm"] == {"asked": 4, "asked_again": 3, "cut": 0, "unparsed": 2, "failed": 0} | {
        "tokens": told["llm"]["tokens"]
    }


def test_ungraded_members_get_no_reward(tir, model):
    replies = model(a_0=["?", "?"], a_1=[YES])
    _, found, _ = tir(GROUPS[:2], *replies, "--judge", "llm", "--reward", "correct")
    assert [r.get("reward") for r in found] == [None, 1]


def test_a_failed_request_is_code_3_and_resume_asks_again(tir, model, tmp_path):
    broken = {"a_0": [{"error": "HTTP 500"}], "a_1": [YES]}
    code, found, _ = tir(GROUPS[:2], *model(**broken), "--judge", "llm")
    assert (code, found[0]["correct"]) == (3, None)
    assert found[0]["judge"]["why"] == "no verdict: HTTP 500"
    # The good one is not asked again: there is no reply for it.
    code, found, _ = tir(GROUPS[:2], *model(a_0=[NO]), "--judge", "llm", "--resume")
    assert code == 0 and [(r["id"], r["correct"]) for r in found] == [("a#0", 0.0), ("a#1", 1.0)]


def test_an_empty_gold_answer_is_code_3(tir):
    code, (found,), said = tir([record("a", 0, "", answer="")])
    assert (code, found["correct"]) == (3, None)
    assert "1 ungraded (1 the gold answer is empty)" in said


def test_redundancy_is_voted_on_beside_the_rule(tir, model, tmp_path):
    yes, no = "<answer>yes</answer>", "<answer>no</answer>"
    replies = model(a_0=[yes, yes, no], a_1=[no, no, yes])
    options = [*replies, "--redundancy", "--redundancy-votes", 3, "--tries", 1]
    report = tmp_path / "report.json"
    _, found, _ = tir([*GROUPS[:2], record("c", 0, "4")], *options, "--report", report)
    counts = {"redundant": 1, "not_redundant": 2, "ungraded": 0}
    assert json.loads(report.read_text())["redundancy"] == counts
    assert [r["judge"]["redundant"] for r in found] == [True, False, False]
    assert found[0]["judge"]["redundancy"] == {"yes": 2, "no": 1, "unparsed": 0, "failed": 0}
    assert (found[0]["judge"]["name"], found[0]["correct"]) == ("math", 1.0)


def test_a_later_rule_judge_keeps_what_was_said_on_redundancy(tir, model):
    replies = model(a_0=["<answer>yes</answer>"])
    options = [*replies, "--redundancy", "--redundancy-votes", 1]
    _, asked, _ = tir(GROUPS[:1], *options)
    _, (found,), _ = tir(asked, "--judge", "exact", "--overwrite")
    assert found["judge"]["redundant"] is True and found["judge"]["name"] == "exact"


@pytest.mark.parametrize("options", [["--judge", "exact"], ["--reward", "correct"]])
def test_resume_with_other_options_is_refused(tir, options):
    tir(GROUPS)
    code, _, said = tir(GROUPS, *options, "--resume")
    assert code == 2 and "--resume" in said and options[1] in said and said.count("\n") == 1


def test_resume_within_a_group_gives_the_rewards_of_the_whole_group(tir, tmp_path):
    options = ["--reward", "otc-grpo", "-q"]
    _, whole, _ = tir(GROUPS, *options)
    out = tmp_path / "out.jsonl"
    lines = out.read_bytes().splitlines(keepends=True)
    out.unlink()
    # A kill left one of a, whose n is that of the other, and a torn line.
    (tmp_path / "out.jsonl.part").write_bytes(lines[0] + lines[1][:50])
    code, found, said = tir(GROUPS, *options, "--resume")
    assert (code, found, said) == (0, whole, "")


def test_a_killed_run_with_a_model_goes_on_where_it_was(tir, model, tmp_path):
    slow = {f"q{i}": [{"text": YES, "seconds": 0.4}] for i in range(8)}
    records = [record(f"q{i}", 0, "4", k=1) for i in range(8)]
    options = [*model(**slow), "--judge", "llm", "--concurrency", "2", "-q"]
    source, out = save(tmp_path / "in.jsonl", records), tmp_path / "out.jsonl"
    command = [*TIR, "judge", source, "-o", str(out), *map(str, options)]
    running = subprocess.Popen(command)
    part = tmp_path / "out.jsonl.part"
    for _ in range(1500):
        if part.exists() and part.read_bytes().count(b"\n") >= 2:
            break
        time.sleep(0.02)
    os.kill(running.pid, signal.SIGKILL)
    running.wait()
    kept = part.read_bytes().count(b"\n")
    assert 2 <= kept < 8
    fast = {f"q{i}": [YES] for i in range(8)}
    code, found, _ = tir(records, *model(**fast), *options[4:], "--resume")
    assert code == 0 and [r["id"] for r in found] == [r["id"] for r in records]


def test_a_pipe_gets_the_groups_in_the_order_of_the_input(model, tmp_path):
    seconds = [0.5, 0.0, 0.2, 0.0]
    replies = {f"q{i}": [{"text": YES, "seconds": s}] for i, s in enumerate(seconds)}
    source = save(tmp_path / "in.jsonl", [record(f"q{i}", 0, "4", k=1) for i in range(4)])
    command = [*TIR, "judge", source, *map(str, model(**replies)), "--judge", "llm", "-q"]
    done = subprocess.run(command, capture_output=True, timeout=120)
    ids = [json.loads(line)["id"] for line in done.stdout.splitlines()]
    assert (done.returncode, ids) == (0, [f"q{i}#0" for i in range(4)])


def test_the_audit_shows_where_judges_differ_and_what_they_accept(tir, model, tmp_path):
    report = tmp_path / "audit.json"
    # A model that finds everything correct.
    lenient = model(**{"*": [YES] * 9})
    options = [*lenient, "--judge", "llm", "--audit", report]
    records = [record("a", 0, "4"), record("a", 1, "7"), record("b", 0, "3.0", answer="3")]
    tir([r | {"correct": 0.0} for r in records], *options)
    found = json.loads(report.read_text())
    pairs = {tuple(p["judges"]): p for p in found["pairs"]}
    against_rule = pairs["llm", "auto"]
    assert [against_rule[k] for k in ("both", "neither", "first", "second")] == [2, 0, 1, 0]
    example = {"id": "a#1", "gold": "4", "prediction": "7"}
    assert {k: against_rule["examples"][0][k] for k in example} == example
    assert [pairs["auto", "exact"][k] for k in ("both", "first")] == [1, 1]
    assert pairs["llm", "stored"]["first"] == 3
    counts = {kind: (p["asked"], p["accepted"]) for kind, p in found["probes"].items()}
    # An empty prediction is never sent to the model.
    assert counts == {
        "gold": (2, 2),
        "empty": (2, 0),
        "echo": (2, 2),
        "numbers": (2, 2),
        "x100": (2, 2),
    }


def test_the_rule_judges_accept_no_probe(tir, tmp_path):
    report = tmp_path / "audit.json"
    golds = ["4", "1/2", "0.25", "50%", "0", "-3", "heron", "x+1"]
    records = [record(f"q{i}", 0, "1", k=1, answer=gold) for i, gold in enumerate(golds)]
    records += [record("qa", 0, "1", k=1, answer=["the heron", "egret"], task="qa")]
    tir(records, "--audit", report)
    probes = json.loads(report.read_text())["probes"]
    assert {k: p["accepted"] for k, p in probes.items()} == {
        "gold": 9,
        "empty": 0,
        "echo": 0,
        "numbers": 0,
        "x100": 0,
    }
    assert (probes["x100"]["asked"], probes["numbers"]["asked"]) == (5, 6)


def test_an_audit_asks_the_model_beside_the_rule(tir, model, tmp_path):
    report = tmp_path / "audit.json"
    tir(GROUPS[:2], *model(a_0=[YES], a_1=[NO]), "--audit", report)
    pairs = {tuple(p["judges"]): p for p in json.loads(report.read_text())["pairs"]}
    assert [pairs["auto", "llm"][k] for k in ("both", "first")] == [1, 1]


def test_report_and_audit_are_not_written_over(tir, tmp_path):
    (tmp_path / "r.json").write_text("mine")
    code, _, said = tir(GROUPS, "--report", tmp_path / "r.json")
    assert code == 2 and "exists" in said and (tmp_path / "r.json").read_text() == "mine"
