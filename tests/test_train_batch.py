"""Examples and micro-batches: what is trained, where a text is cut, who goes with whom."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from tircli.records import Segment, ToolUse, Trajectory
from tircli.train.batch import IGNORED, Example, collate, example, plan, roles

CASES = Path(__file__).parents[1] / "../shared/cases/reports.jsonl"


def trajectory(*parts: tuple[str, list[int]]) -> Trajectory:
    segments = [
        Segment(role, "", ids, tool=ToolUse("python", "", "") if role == "tool" else None)
        for role, ids in parts
    ]
    return Trajectory("t", "t", "?", stop="answer", segments=segments)


TWO_TURNS = trajectory(
    ("prompt", [1, 2, 3]), ("model", [4, 5]), ("tool", [6, 7]), ("hint", [8]), ("model", [9, 0])
)


@pytest.mark.parametrize(
    "on, trained",
    [
        (roles(), [3, 4, 8, 9]),
        (roles(results=True), [3, 4, 5, 6, 8, 9]),
        (roles(hints=True), [3, 4, 7, 8, 9]),
        (roles(results=True, hints=True), [3, 4, 5, 6, 7, 8, 9]),
    ],
)
def test_who_wrote_the_tokens_decides_what_is_trained(on, trained):
    made = example(TWO_TURNS, on)
    assert [i for i, yes in enumerate(made.trained) if yes] == trained


def test_the_first_reply_token_and_each_end_of_turn_are_trained():
    # Two turns that end with id 99: neither edge of a turn may fall out of the mask.
    two = trajectory(("prompt", [1, 2]), ("model", [3, 99]), ("tool", [5]), ("model", [6, 99]))
    assert example(two).trained == [False, False, True, True, False, True, True]


@pytest.mark.skipif(not CASES.exists(), reason="needs ../shared/cases")
def test_mask_edges_as_reported_of_similar_tools():
    cases = [json.loads(line) for line in CASES.read_text("utf-8").splitlines()]
    case = next(c for c in cases if c["id"] == "tok-03-sft-mask-edges")
    kinds = {"p": "prompt", "r": "model", "eos": "model", "t": "tool"}
    parts: list[tuple[str, list[int]]] = []
    for index, role in enumerate(case["input"]["roles"]):
        if not parts or parts[-1][0] != kinds[role]:
            parts.append((kinds[role], []))
        parts[-1][1].append(index)
    made = example(trajectory(*parts))
    on = [i for i, yes in enumerate(made.trained) if yes]
    off = [i for i, yes in enumerate(made.trained) if not yes]
    assert (on, off) == (case["expected"]["loss_on"], case["expected"]["loss_off"])


def test_the_very_first_token_is_never_trained():
    assert example(trajectory(("prompt", []), ("model", [4, 5]))).trained == [False, True]


@pytest.mark.parametrize(
    "max_length, ids",
    [
        (10, [1, 2, 3, 4, 5, 6, 7, 8, 9, 0]),
        (9, [1, 2, 3, 4, 5]),  # the last turn goes whole, and the result that led to it
        (5, [1, 2, 3, 4, 5]),
        (4, []),
    ],
)
def test_a_text_is_cut_at_a_segment_border_alone(max_length, ids):
    assert example(TWO_TURNS, max_length=max_length).ids == ids


def flat(lists: list[list[int]]) -> list[int]:
    return [item for some in lists for item in some]


LENGTHS = [7, 3, 9, 4, 12, 1, 5, 8, 2, 6]


@pytest.mark.parametrize("packing", [False, True])
@pytest.mark.parametrize("world, micro", [(1, 1), (1, 2), (1, 4), (2, 1), (2, 2)])
def test_every_update_reads_the_same_trajectories_however_it_is_cut(packing, world, micro):
    how = {"epochs": 2.0, "batch": 4, "seed": 3}
    micros = plan(LENGTHS, micro_batch=micro, world=world, packing=packing, **how)
    width = 4 // micro
    found = [sorted(flat(micros[i : i + width])) for i in range(0, len(micros), width)]
    assert found == [sorted(m) for m in plan(LENGTHS, micro_batch=4, **how)]
    assert len(micros) % world == 0 and all(micros)


def test_each_epoch_reads_every_trajectory_once_in_a_new_order():
    micros = plan(LENGTHS, epochs=2, batch=5, micro_batch=5)
    first, second = flat(micros[:2]), flat(micros[2:])
    assert sorted(first) == sorted(second) == list(range(10))
    assert [sorted(m) for m in micros[:2]] != [sorted(m) for m in micros[2:]]


def test_the_last_update_may_be_shorter_but_loses_nothing():
    micros = plan(LENGTHS, epochs=1, batch=4, micro_batch=2)
    assert Counter(flat(micros)) == Counter(range(10))
    assert [len(m) for m in micros] == [2, 2, 2, 2, 2]


def test_packed_micro_batches_hold_alike_many_tokens():
    lengths = [100, 10, 10, 10, 10, 60, 50, 50]  # 300 in all; 100 | 60+10+10+10+10 | 50+50
    (micros,) = [plan(lengths, epochs=1, batch=8, micro_batch=4, packing=True)]
    assert sorted(sum(lengths[i] for i in m) for m in micros) == [150, 150]


def test_padded_micro_batches_hold_like_lengths():
    micros = plan([1, 9, 2, 8], epochs=1, batch=4, micro_batch=2)
    assert sorted(map(sorted, micros)) == [[0, 2], [1, 3]]


PAIR = [Example("a", [5, 6, 7], [False, True, True]), Example("b", [8, 9], [False, True])]


def test_padding_stands_on_the_right_and_is_ignored():
    pytest.importorskip("torch", reason="tensors need tircli[local]")
    batch = {key: value.tolist() for key, value in collate(PAIR).items()}
    assert batch["input_ids"] == [[5, 6, 7], [8, 9, 0]]
    assert batch["labels"] == [[IGNORED, 6, 7], [IGNORED, 9, IGNORED]]
    assert batch["position_ids"] == [[0, 1, 2], [0, 1, 2]]
    assert batch["keep"] == [0, 1]


def test_a_packed_row_starts_its_positions_again():
    pytest.importorskip("torch", reason="tensors need tircli[local]")
    batch = {key: value.tolist() for key, value in collate(PAIR, packing=True).items()}
    assert batch["input_ids"] == [[5, 6, 7, 8, 9]]
    assert batch["labels"] == [[IGNORED, 6, 7, IGNORED, 9]]
    assert batch["position_ids"] == [[0, 1, 2, 0, 1]]
    assert batch["keep"] == [0, 1, 3]
