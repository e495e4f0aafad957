"""The RFT filter: which trajectories are worth imitating (SPEC 5)."""

from __future__ import annotations

import pytest

from tircli.records import Segment, ToolUse, Trajectory
from tircli.train.filter import reason, rft


def made(identity: str, group: str = "q", text: str | None = None, **changed) -> Trajectory:
    """A trajectory that passes, with one call, and what a test changes of it."""
    status = changed.pop("status", "ok")
    segments = [
        Segment("prompt", "?"),
        Segment("model", f"<think>{text or identity}</think><python>1</python>"),
        Segment("tool", "1", tool=ToolUse("python", "1", "1", status)),
    ]
    fields = {"stop": "answer", "correct": 1.0, "judge": {"format": []}, "segments": segments}
    return Trajectory(identity, group, "?", **{**fields, **changed})


@pytest.mark.parametrize(
    "changed, why",
    [
        ({}, None),
        ({"correct": 0.0}, "not correct"),
        ({"correct": 0.99}, "not correct"),
        ({"correct": 0.8, "task": "qa"}, "not correct"),
        ({"correct": 0.81, "task": "qa"}, None),
        ({"correct": None}, "not judged"),
        ({"stop": None}, "unfinished"),
        ({"stop": "error"}, "ended in an error"),
        ({"judge": {"format": ["no_think"]}}, "malformed"),
        ({"judge": {}}, "form not checked: its protocol is unknown"),
        ({"judge": None}, "form not checked: its protocol is unknown"),
        ({"status": "error"}, "a failed execution"),
        ({"status": "timeout"}, "a failed execution"),
        ({"status": "limit"}, "a failed execution"),
    ],
)
def test_only_correct_well_formed_and_executed_ones_pass(changed, why):
    assert reason(made("a", **changed)) == why


def test_every_rejection_is_counted_with_its_reason():
    group = [made("a"), made("b", correct=0.0), made("c", correct=0.0), made("d", status="error")]
    kept, rejected = rft([group])
    assert [t.id for t in kept] == ["a"]
    assert rejected == {"not correct": 2, "a failed execution": 1}


def test_the_same_text_counts_once_white_space_folded():
    kept, rejected = rft([[made("a", text="x  y"), made("b", text="x\ny"), made("c", text="x")]])
    assert [t.id for t in kept] == ["a", "c"]
    assert rejected == {"same text as another": 1}


def test_at_most_k_of_a_question_and_a_size_in_all():
    groups = [[made(f"{g}{i}", g) for i in range(6)] for g in "abc"]
    kept, rejected = rft(groups, per_question=4, size=10)
    assert len(kept) == 10 and rejected == {"over --per-question": 6, "over --size": 2}
    assert max([t.group for t in kept].count(g) for g in "abc") <= 4


def test_the_draw_depends_on_the_seed_and_not_on_the_order():
    groups = [[made(f"{g}{i}", g) for i in range(6)] for g in "abc"]
    turned = [list(reversed(group)) for group in reversed(groups)]
    draws = []
    for seed in range(3):
        first = [t.id for t in rft(groups, per_question=2, size=4, seed=seed)[0]]
        assert sorted(t.id for t in rft(turned, per_question=2, size=4, seed=seed)[0]) == first
        draws.append(tuple(first))
    assert len(set(draws)) == 3


def test_by_reward_the_best_of_a_question_are_kept_and_only_equals_are_drawn():
    group = [made(f"a{i}", "a", reward=reward) for i, reward in enumerate([0.5, 1.0, 1.0, None])]
    kept = {rft([group], per_question=1, seed=s, by_reward=True)[0][0].id for s in range(20)}
    assert kept == {"a1", "a2"}
    assert [t.id for t in rft([group], per_question=3, by_reward=True)[0]] == ["a0", "a1", "a2"]
