"""Metrics: values computed by hand, zero cases, clusters, slices."""

from __future__ import annotations

import itertools
import math

import pytest
from rich.console import Console

from tircli import metrics, slices, sums
from tircli.metrics import measure
from tircli.records import InputError, Segment, ToolUse, Trajectory
from tircli.report import bars, fail_under, table, text_plots


def make(group="q", correct=None, uses=(), tokens=None, stop="answer", **rest):
    """A trajectory with `uses` (status or (name, status)) and `tokens` model tokens."""
    segments = [Segment("prompt", "p", [1])]
    ids = None if tokens is None else list(range(tokens))
    segments.append(Segment("model", "m", ids))
    for use in uses:
        name, status = ("python", use) if isinstance(use, str) else use
        call = ToolUse(name, "", "", status=status, seconds=0.5)
        segments.append(Segment("tool", "t", [7, 8, 9], tool=call))
    return Trajectory(group, group, "?", correct=correct, stop=stop, segments=segments, **rest)


def means(groups, **options):
    return {name: m["mean"] for name, m in measure(groups, **options)["metrics"].items()}


def test_by_hand():
    groups = [
        [
            make("a", 1.0, ["ok", "error", ("search", "timeout")], 100, judge={"redundant": True}),
            make("a", 0.0, ["ok"], 50, judge={"redundant": False}),
        ],
        [
            make("b", 1.0, [], 200, judge={"em": 1, "f1": 0.5, "format": ["x", "y"]}),
            make("b", 1.0, ["ok", "limit", "refused"], None, judge={"em": False, "f1": 1.0}),
        ],
    ]
    result = measure(groups)
    got = {name: m["mean"] for name, m in result["metrics"].items()}
    assert got == pytest.approx(
        {
            "em": 0.5,
            "f1": 0.75,
            "correct": 0.75,
            "tc": 5 / 4,
            "tc.python": 4 / 4,
            "tc.search": 1 / 4,
            "tp": 3 / 5,
            "effi": (1 / 3 + 0 + 1 + 1) / 4,
            "conciseness": 0.5,
            "successful_execution": (1 / 2 + 0 + 1 + 1) / 4,
            "successful_execution_plus1": (1 / 3 + 0 + 1 + 1) / 4,
            "reasoning_length": 1000 * (1 / 100 + 0 + 1 / 200) / 3,
            "model_tokens": 350 / 3,
            "tool_tokens": 3 * 7 / 4,
            "seconds": 5 * 0.5 / 4,
            "redundant": 0.5,
            "aborted": 1 / 4,
            "insufficient": None,
            "erroneous": 1 / 4,
            "pass@1": 0.75,
            "pass@2": 1.0,
        }
    )
    assert (result["n"], result["questions"], result["graded"], result["errors"]) == (4, 2, 4, 0)
    assert result["counts"] == {
        "stop": {"answer": 4},
        "status": {"error": 1, "limit": 1, "ok": 3, "refused": 1, "timeout": 1},
        "calls": {"python": 4, "search": 1},
        "attempted": 7,
        "format_violations": 2,
    }


@pytest.mark.parametrize("correct", [None, 0.0, 1.0])
def test_without_calls(correct):
    got = means([[make(correct=correct)], [make("r", correct)]])
    assert got["tc"] == 0 and got["seconds"] == 0
    assert got["tp"] is None and got["conciseness"] is None and got["em"] is None
    assert got["reasoning_length"] is None and got["model_tokens"] is None
    for name in ("correct", "effi", "successful_execution_plus1", "pass@1"):
        assert got[name] == correct


def test_no_model_tokens_and_not_begun():
    got = means([[make(correct=1.0, tokens=0)], [Trajectory("r", "r", "?")]])
    assert got["reasoning_length"] is None and got["model_tokens"] == 0
    assert measure([[Trajectory("r", "r", "?")]])["metrics"]["tc"]["mean"] is None


def test_calls_but_nothing_correct():
    assert means([[make(correct=0.0, uses=["ok"])]])["tp"] == 0


def test_ungraded_and_errors():
    groups = [[make("a", 1.0, ["ok"]), make("a", None, ["ok"] * 4), make("a", 0.0, ["killed"])]]
    groups[0][2].stop = "error"
    result = measure(groups)
    assert [result[key] for key in ("n", "graded", "ungraded", "errors")] == [3, 1, 1, 1]
    assert result["metrics"]["correct"]["mean"] == 1
    assert result["metrics"]["tp"]["mean"] == 1
    assert result["metrics"]["tc"]["mean"] == 2.5
    assert result["counts"]["stop"] == {"answer": 2, "error": 1}
    assert result["counts"]["status"] == {"killed": 1, "ok": 5}


def clusters():
    return [[make(str(q), float(q < 2)) for _ in range(4)] for q in range(4)]


def test_samples_of_a_question_are_no_questions():
    metric = measure(clusters())["metrics"]
    assert metric["correct"]["mean"] == 0.5
    assert metric["correct"]["stderr"] == pytest.approx(math.sqrt(1 / 12))
    assert metric["correct"]["low"] == 0 and metric["correct"]["high"] == 1
    assert [name for name in metric if "@" in name] == ["pass@1", "pass@2", "pass@4"]
    assert measure(clusters(), k=(8, 2))["metrics"]["pass@8"] == dict.fromkeys(
        ("mean", "low", "high", "stderr")
    )


def test_no_pass_at_k_if_one_question_has_too_few():
    groups = [[make("a", 1.0)] * 8, [make("b", 1.0)] * 3]
    got = means(groups, k=(1, 3, 4, 8))
    assert (got["pass@1"], got["pass@3"], got["pass@4"], got["pass@8"]) == (1, 1, None, None)
    assert "pass@2" in means(groups) and "pass@4" not in means(groups)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_pass_at_k_is_the_share_of_subsets(n):
    for solved in range(n + 1):
        group = [make("a", float(i < solved)) for i in range(n)]
        got = means([group], k=tuple(range(1, n + 2)))
        for k in range(1, n + 1):
            subsets = list(itertools.combinations(range(n), k))
            share = sum(min(subset) < solved for subset in subsets) / len(subsets)
            assert got[f"pass@{k}"] == pytest.approx(share)
        assert got[f"pass@{n + 1}"] is None


def test_partly_correct_is_not_passed():
    got = means([[make(correct=0.5), make(correct=0.5)]])
    assert got["correct"] == 0.5 and got["pass@1"] == 0


def test_bad_k():
    with pytest.raises(InputError, match="1 or more"):
        measure([], k=(0,))


def test_one_question_has_no_interval():
    for metric in measure([clusters()[0]])["metrics"].values():
        assert metric["low"] is metric["high"] is metric["stderr"] is None


def mixed(count):
    return [
        [
            make(str(q), float((q * 7 + s) % 3 == 0), ["ok"] * ((q + s) % 4))
            for s in range(1 + q % 3)
        ]
        for q in range(count)
    ]


def test_intervals():
    first, again = measure(mixed(120)), measure(iter(mixed(120)))
    assert first == again
    assert first != measure(mixed(120), seed=1)
    for name in ("correct", "tc", "tp", "effi", "pass@1"):
        metric = first["metrics"][name]
        assert metric["low"] < metric["mean"] < metric["high"]
        half = (metric["high"] - metric["low"]) / 2
        assert half == pytest.approx(1.96 * metric["stderr"], rel=0.15), name


def test_analytic_interval_beyond_the_bound(monkeypatch):
    sampled = measure(mixed(300))["metrics"]
    monkeypatch.setattr(metrics, "BOOTSTRAP_QUESTIONS", 299)
    normal = measure(mixed(300))["metrics"]
    for name in ("correct", "tc", "tp"):
        assert normal[name]["mean"] == sampled[name]["mean"]
        assert normal[name]["low"] == pytest.approx(sampled[name]["low"], rel=0.05)
        assert normal[name]["high"] == pytest.approx(sampled[name]["high"], rel=0.05)


def test_question_without_calls_counts_for_tp():
    metric = measure([[make("a", 1.0)], [make("b", 1.0, ["ok", "ok"])]])["metrics"]["tp"]
    assert metric["mean"] == 1 and metric["stderr"] == pytest.approx(math.sqrt(2 * 2) / 2)


def test_tool_seen_late():
    assert means([[make("a")], [make("b", uses=[("late/n", "ok")])]])["tc.late/n"] == 0.5


def test_by():
    groups = [
        [
            make("a", 1.0, ["ok"], meta={"level": 3}, made={"stage": "x"}),
            make("a", 0.0, [("search", "ok")], meta={"level": 3}, stop="length"),
        ],
        [make("b", 0.0, meta={"level": 5}, extra={"src": "[red]"})],
    ]
    result = measure(groups, by=["level", "stage", "stop", "src"])
    part = result["by"]
    assert list(part) == [
        *("level=3", "level=5", "stage=null", "stage=x", "stop=answer", "stop=length"),
        *("src=[red]", "src=null"),
    ]
    assert part["level=3"] == measure(groups[:1])
    assert part["stop=answer"]["metrics"]["correct"]["mean"] == 0.5
    assert part["stop=answer"]["questions"] == 2
    assert "tc.search" not in part["stage=x"]["metrics"]
    console = Console(record=True, width=300)
    console.print(table(result))
    text = console.export_text()
    for word in ("95 % interval", "src=[red]", "tc.search", "stop.length", "calls.python"):
        assert word in text


def test_by_unknown_or_too_fine(monkeypatch):
    with pytest.raises(InputError, match="no record has it"):
        measure(clusters(), by=["lvel"])
    monkeypatch.setattr(slices, "MAX_SLICES", 3)
    with pytest.raises(InputError, match="over 3 values"):
        measure(clusters(), by=["group"])


def test_fail_under():
    result = measure(clusters())
    assert fail_under(result, {"correct": 0.5, "tc": 0}) == []
    assert fail_under(result, {"correct": 0.6, "tp": 0.1}) == [
        "correct is 0.5, below 0.6",
        "tp is null, limit 0.1",
    ]
    with pytest.raises(InputError, match="em, f1, correct"):
        fail_under(result, {"accuracy": 0.5})


def test_a_limit_may_name_a_slice_an_end_or_a_count():
    groups = [[make("a", 1.0, meta={"x": 1})], [make("b", 0.0, meta={"x": 2})]]
    result = measure(groups, by=["meta.x"])
    limits = {"meta.x=2/correct": 0.5, "meta.x=1/correct": 0.5, "correct.low": 0.1, "stop.eos": 1}
    assert fail_under(result, limits) == [
        "meta.x=2/correct is 0, below 0.5",
        "correct.low is 0, below 0.1",
        "stop.eos is 0, below 1",
    ]


def test_by_a_dotted_name_and_crossed():
    groups = [
        [make("a", 1.0, made={"model": "x"}, judge={"name": "math"}), make("a", 0.0)],
        [make("b", 0.0, made={"model": "y"}, parent={"op": "hint-end"}, task="qa")],
    ]
    part = measure(groups, by=["made.model", "judge.name,task", "parent.op"])["by"]
    assert list(part) == [
        *("made.model=null", "made.model=x", "made.model=y"),
        *("judge.name=math,task=math", "judge.name=null,task=math", "judge.name=null,task=qa"),
        *("parent.op=hint-end", "parent.op=null"),
    ]
    assert part["made.model=x"]["metrics"]["correct"]["mean"] == 1
    assert part["parent.op=null"]["n"] == 2


def test_a_wrong_answer_that_a_hint_puts_right_was_short_of_calls():
    def child(i, of, correct):
        found = make("q", correct, parent={"id": of, "op": "hint-end"})
        found.id = f"h{i}"
        return found

    wrong = [make("q", 0.0) for _ in range(3)]
    for i, trajectory in enumerate(wrong):
        trajectory.id = f"w{i}"
    got = means([[*wrong, child(0, "w0", 1.0), child(1, "w0", 0.0), child(2, "w1", 0.0)]])
    # Hinted: w0 (put right) and w1. Wrong: w0, w1, w2 and two of the continuations, of 6.
    assert got["insufficient"] == 1 / 2
    assert got["erroneous"] == 4 / 6
    assert means([wrong])["insufficient"] is None


def test_memory_holds_no_more_rows_than_the_bootstrap_needs(monkeypatch):
    monkeypatch.setattr(metrics, "BOOTSTRAP_QUESTIONS", 10)
    questions = metrics.Questions((1,))
    for _ in range(1000):
        questions.add(sums.Row(), (0.0,))
    assert questions.n == 1000 and len(questions._rows) <= 10 * (len(sums.SUMS) + 1)


def test_calls_against_accuracy():
    groups = [[make("a", 1.0, ["ok"] * 2), make("a", 0.0, ["ok"])], [make("b", 0.5, ["ok"])]]
    assert measure(groups)["calls"] == {
        "trajectories": {
            "1": {"n": 2, "graded": 2, "correct": 0.25},
            "2": {"n": 1, "graded": 1, "correct": 1.0},
        },
        "questions": {"1": 1, "1.5": 1},
    }


def test_bars_are_as_long_as_their_share():
    assert bars({"a": 4, "bb": 1, "c": 0}, width=4) == [" a ████ 4", "bb █ 1", " c  0"]
    assert "correct by executed calls" in text_plots(measure([[make(correct=1.0)]]))
    assert text_plots(measure([])) == ""


@pytest.mark.parametrize("groups", [[], [[]]])
def test_empty(groups):
    result = measure(groups, by=["level"])
    assert result["n"] == result["questions"] == 0 and result["by"] == {}
    assert {value for metric in result["metrics"].values() for value in metric.values()} == {None}
    assert set(metrics.NAMES) | {"pass@1"} == set(result["metrics"])
    assert table(result).row_count == 7 and "correct" in table(result).caption
