"""Records: the invariants of schema 1, and that what is read is written again."""

from __future__ import annotations

import pytest

from tircli.checks import from_json
from tircli.records import RecordError, stable_seed, to_json

QUESTION = {"id": "q1", "question": "1+1?", "answer": "2"}
PROMPT = {"role": "prompt", "text": "hi", "token_ids": [1]}


def model(**change):
    return {"role": "model", "text": "ab", "token_ids": [1, 2], "logprobs": [-0.1, -0.2]} | change


def test_a_question_is_a_trajectory_that_has_not_begun():
    trajectory = from_json(QUESTION)
    assert (trajectory.segments, trajectory.stop, trajectory.correct) == ([], None, None)


def test_unknown_keys_survive_on_both_levels():
    record = QUESTION | {"mine": [1], "segments": [PROMPT | {"note": "x"}]}
    written = to_json(from_json(record))
    assert written["mine"] == [1] and written["segments"][0]["note"] == "x"
    assert list(written)[-1] == "segments"


def test_reading_what_was_written_changes_nothing():
    once = to_json(from_json(QUESTION | {"segments": [PROMPT, model()]}))
    assert to_json(from_json(once)) == once


@pytest.mark.parametrize(
    ("written", "read"),
    [(72, "72"), (72.0, "72"), (0.5, "0.5"), (["a", 3], ["a", "3"]), (10**30, "1" + "0" * 30)],
)
def test_answers_become_text(written, read):
    assert from_json({"question": "?", "answer": written}).answer == read


@pytest.mark.parametrize("alias", ["problem", "input"])
def test_other_names_of_a_question_are_read(alias):
    assert from_json({alias: "1+1?", "golden_answers": ["2"]}).golds == ["2"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"question": None}, "no question"),
        ({"question": " "}, "non-empty"),
        ({"schema": 2}, "newer"),
        ({"schema": "1"}, '"schema"'),
        ({"id": ["x"]}, '"id"'),
        ({"answer": {"x": 1}}, '"answer"'),
        ({"answer": True}, '"answer"'),
        ({"task": "art"}, "math, qa"),
        ({"stop": "bored"}, '"stop"'),
        ({"correct": 1.5}, "0 to 1"),
        ({"correct": "yes"}, '"correct"'),
        ({"k": -1}, '"k"'),
        ({"meta": 3}, '"meta"'),
        ({"segments": {}}, '"segments"'),
        ({"segments": [model()]}, "is not a prompt"),
        ({"segments": [PROMPT, PROMPT]}, "second prompt"),
        ({"segments": [PROMPT, model(role="user")]}, '"role"'),
        ({"segments": [PROMPT, model(logprobs=[-0.1])]}, "1 logprobs for 2"),
        ({"segments": [PROMPT, model(token_ids=None)]}, "for no token_ids"),
        ({"segments": [PROMPT, model(token_ids=[1, 2.0])]}, "whole numbers"),
        ({"segments": [PROMPT, model(token_ids=[1, "2"])]}, "whole numbers"),
        ({"segments": [PROMPT, model(logprobs=[0.1, float("nan")])]}, "finite"),
        ({"segments": [PROMPT, model(role="tool")]}, '"tool"'),
    ],
)
def test_a_bad_record_is_refused_with_place_and_remedy(change, says):
    with pytest.raises(RecordError) as caught:
        from_json(QUESTION | change, "q.jsonl:3")
    assert str(caught.value).startswith("q.jsonl:3") and says in str(caught.value)


def test_seeds_are_the_same_everywhere():
    assert stable_seed(0, "q1", 2) == stable_seed(0, "q1", 2) != stable_seed(0, "q1", 3)
    assert 0 <= stable_seed("x") < 2**63


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"correct": 10**400}, 'q.jsonl:3: "correct"'),
        (
            {"segments": [PROMPT, model(logprobs=[10**400, 0])]},
            'q.jsonl:3: segments[1]: "logprobs"',
        ),
        ({"segments": [PROMPT, 3]}, "q.jsonl:3: segments[1] is 3"),
        (
            {"segments": [PROMPT, {"role": "tool", "text": "", "tool": {"name": "python"}}]},
            'q.jsonl:3: segments[1].tool: no "input"',
        ),
    ],
)
def test_the_place_of_what_is_wrong_is_exact(change, place):
    with pytest.raises(RecordError) as caught:
        from_json(QUESTION | change, "q.jsonl:3")
    assert str(caught.value).startswith(place)
