"""OTC-PO's equations 5 to 7 and the table of least calls."""

from __future__ import annotations

import itertools
import math
import random

import pytest

from tircli.papers.otc import (
    LeastCalls,
    mapped_calls,
    tool_reward_grpo,
    tool_reward_ppo,
    total_reward,
)

COUNTS = range(13)
SMOOTH = (0.5, 1, 3, 4, 10)


@pytest.mark.parametrize(
    ("c", "expected"),
    [(4, [1, 0.8660, 0.7071, 0.5878, 0.5]), (3, [1, 0.8090, 0.6235, 0.5, 0.4154])],
)
def test_alone_the_reward_falls_from_1_with_each_call(c, expected):
    assert [tool_reward_ppo(m, c) for m in range(5)] == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize(
    ("n", "expected"),
    [
        (0, [1, 0.8660, 0.7071, 0.5878, 0.5]),  # n = 0 is equation 5, here with c = 4
        (1, [0, 1, 0.8660, 0.7071, 0.5878]),
        (2, [0, 0.8660, 1, 0.9511, 0.8660]),
    ],
)
def test_against_the_least_calls(n, expected):
    assert [tool_reward_grpo(m, n, 4) for m in range(5)] == pytest.approx(expected, abs=5e-5)


def test_f_maps_calls_into_0_to_2n():
    assert [mapped_calls(0, 0), mapped_calls(3, 0), mapped_calls(2, 1)] == [
        0,
        3,
        pytest.approx(4 / 3),
    ]
    assert all(0 <= mapped_calls(m, n) < 2 * n for m, n in itertools.product(COUNTS, range(1, 9)))


def test_the_printed_formula_is_what_is_computed():
    for m, n in itertools.product(COUNTS, range(1, 9)):
        printed = math.sin(mapped_calls(m, n) * math.pi / (2 * n))
        assert tool_reward_grpo(m, n, 4) == pytest.approx(printed, abs=1e-12)


def test_m_and_n_may_change_places():
    for m, n in itertools.product(range(1, 60), repeat=2):
        assert tool_reward_grpo(m, n, 4) == tool_reward_grpo(n, m, 4)


@pytest.mark.parametrize(("n", "c"), list(itertools.product(COUNTS, SMOOTH)))
def test_the_reward_is_highest_at_the_least_calls_and_falls_to_both_sides(n, c):
    values = [tool_reward_grpo(m, n, c) for m in range(40)]
    assert values[n] == 1 == max(values)
    assert values[: n + 1] == sorted(set(values[: n + 1]))
    assert values[n:] == sorted(set(values[n:]), reverse=True)


@pytest.mark.parametrize(("m", "c"), list(itertools.product([*COUNTS, 10**6, 10**15], SMOOTH)))
def test_alone_the_reward_stays_in_0_to_1_and_grows_with_c(m, c):
    assert 0 < tool_reward_ppo(m, c) <= 1
    assert tool_reward_ppo(m, c) <= tool_reward_ppo(m, 2 * c)


@pytest.mark.parametrize(("m", "n"), list(itertools.product([0, 1, 10**9, 10**15], [1, 3, 10**9])))
def test_rounding_never_makes_the_reward_negative(m, n):
    assert 0 <= tool_reward_grpo(m, n, 4) <= 1


def test_the_total_is_the_product():
    assert total_reward(1.0, 0.5, alpha=2.0) == 1.0
    assert total_reward(0.0, 0.9) == 0.0


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf])
def test_counts_that_are_none_are_refused(bad):
    with pytest.raises(ValueError, match="m is"):
        tool_reward_ppo(bad, 4)
    with pytest.raises(ValueError, match="n is"):
        tool_reward_grpo(1, bad, 4)
    with pytest.raises(ValueError, match="calls is"):
        LeastCalls().observe("q", bad)


@pytest.mark.parametrize("c", [0, -3, math.nan, math.inf])
def test_c_must_be_above_0(c):
    with pytest.raises(ValueError, match="c is"):
        tool_reward_ppo(1, c)


def table(**calls: int) -> LeastCalls:
    made = LeastCalls()
    made.load(calls)
    return made


def test_the_table_keeps_the_least():
    least = LeastCalls()
    assert least.get("q") is None
    for calls in (3, 1, 2):
        least.observe("q", calls)
    assert least.get("q") == 1


def test_merging_takes_the_lesser_in_any_order_and_any_number_of_times():
    pairs = [("a", 3), ("a", 1), ("b", 0), ("b", 5), ("c", 2)]
    for seed in range(20):
        shards = [table(**{question: calls}) for question, calls in pairs] * 2
        random.Random(seed).shuffle(shards)
        whole = LeastCalls()
        for shard in shards:
            whole.merge(shard)
        assert whole.state_dict() == {"a": 1, "b": 0, "c": 2}


def test_the_state_can_be_stored_and_loaded():
    state = table(a=1, b=2).state_dict()
    state["a"] = 0
    loaded = table(z=9)
    loaded.load(state)
    assert loaded.state_dict() == {"a": 0, "b": 2}


@pytest.mark.parametrize("state", [{"a": -1}, {"a": 1.5}, {"a": True}, {"a": None}, {1: 1}])
def test_a_state_of_something_else_is_refused(state):
    with pytest.raises(ValueError, match=r"expected|calls is"):
        LeastCalls().load(state)
