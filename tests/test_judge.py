"""The rule judges: their contract, the guard for gold answers, what stays in a record."""

from __future__ import annotations

import pytest

from tircli import judge
from tircli.records import InputError, Segment, Trajectory


def answered(prediction, answer, task="math", **more) -> Trajectory:
    return Trajectory("q#0", "q", "?", answer, task, prediction=prediction, stop="answer", **more)


def judged(trajectory: Trajectory, name: str = "auto") -> Trajectory:
    ((found,),) = judge.judge([[trajectory]], name)
    return found


@pytest.mark.parametrize("name", ["auto", "math", "qa", "exact"])
@pytest.mark.parametrize("prediction", ["", " ", None, "heron"])
def test_an_empty_gold_answer_is_a_data_error_and_no_match(name, prediction):
    for answer in ("", "  ", ["", " "]):
        found = judged(answered(prediction, answer), name)
        assert (found.correct, found.judge["why"]) == (None, judge.EMPTY_GOLD)


@pytest.mark.parametrize("name", ["auto", "math", "qa", "exact"])
def test_without_a_gold_answer_there_is_no_verdict(name):
    found = judged(answered("1", None), name)
    assert (found.correct, found.judge["why"]) == (None, "no gold answer")


@pytest.mark.parametrize("name", ["auto", "math", "qa", "exact"])
@pytest.mark.parametrize("prediction", ["", " ", None])
def test_an_empty_prediction_is_wrong_even_beside_an_empty_gold(name, prediction):
    assert judged(answered(prediction, ["", "heron"]), name).correct == 0


@pytest.mark.parametrize(
    ("name", "task", "prediction", "correct"),
    [
        ("auto", "math", "0.5", 1),
        ("auto", "qa", "the 1/2", 1),
        ("exact", "math", "1/2", 1),
        ("exact", "math", "0.5", 0),
        ("qa", "math", "1/2 or so", 0.5),  # tokens 12 | 12, or, so: 2 * 1 / (1 + 3)
    ],
)
def test_each_judge_compares_in_its_way(name, task, prediction, correct):
    assert judged(answered(prediction, "1/2", task), name).correct == correct


@pytest.mark.parametrize("prediction", ["5 m^{a}", "Find 5 cm^{a + b} where it holds.", "^" * 99])
def test_a_prediction_that_is_no_answer_is_wrong(prediction):
    assert judged(answered(prediction, "5")).correct == 0


def test_what_failed_or_goes_on_is_not_judged():
    failed = answered("1", "1")
    failed.stop = "error"
    begun = answered("1", "1", segments=[Segment("prompt", "?")])
    begun.stop = None
    assert judged(failed).judge is judged(begun).judge is None


def test_a_line_with_a_prediction_and_no_segments_is_judged():
    line = answered("1", "1")
    line.stop = None
    assert judged(line).correct == 1


def test_what_a_model_said_about_redundancy_stays():
    old = {
        "name": "llm",
        "why": "",
        "votes": {"yes": 1},
        "redundant": True,
        "redundancy": {"yes": 9},
    }
    found = judged(answered("1", "1", judge=old)).judge
    assert found == {
        "name": "math",
        "why": "same text",
        "redundant": True,
        "redundancy": {"yes": 9},
    }


SEGMENTS = [Segment("prompt", "?"), Segment("model", "I guess 1.")]


def test_the_form_is_checked_by_the_protocol_that_made_the_record():
    found = judged(answered("1", "1", made={"protocol": "et"}, segments=SEGMENTS))
    assert "no_think_first" in found.judge["format"]


def test_an_unknown_protocol_is_said_once_and_leaves_the_form_unchecked():
    said: list[str] = []
    records = [
        answered("1", "1", made={"protocol": "elsewhere.toml"}, segments=SEGMENTS) for _ in range(3)
    ]
    (group,) = judge.judge([records], warn=said.append)
    assert [("format" in t.judge) for t in group] == [False] * 3
    assert len(said) == 1 and "elsewhere.toml" in said[0]


@pytest.fixture
def mine_on_path(tmp_path, monkeypatch):
    source = "def mine(t):\n    return eval(t.question)\n"
    (tmp_path / "tir_test_judges.py").write_text(source)
    monkeypatch.syspath_prepend(str(tmp_path))
    return "tir_test_judges:mine"


@pytest.mark.parametrize(
    ("said", "correct"), [("(1, {})", 1.0), ("(True, {})", 1.0), ("(None, {})", None)]
)
def test_a_judge_of_the_user_needs_no_gold_answer(mine_on_path, said, correct):
    assert judged(Trajectory("q", "q", said, stop="answer"), mine_on_path).correct == correct


@pytest.mark.parametrize("said", ["3", "(2, {})", "(float('nan'), {})", "('yes', {})", "(1, None)"])
def test_a_judge_that_breaks_the_contract_is_told_so(mine_on_path, said):
    with pytest.raises(InputError, match=r'mine: returned .* for "q"; return \(a number'):
        judged(Trajectory("q", "q", said, stop="answer"), mine_on_path)
