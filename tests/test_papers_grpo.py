"""GRPO's advantages within a group."""

from __future__ import annotations

import math
import random

import pytest

from tircli.papers.grpo import advantages, spreads


def test_advantages_by_hand():
    # mean 0.5, std sqrt(4 * 0.25 / 3) = 0.57735
    assert advantages([1, 0, 0, 1]) == pytest.approx([0.866, -0.866, -0.866, 0.866], abs=1e-3)
    assert advantages([1, 0, 0, 1], scale=False) == [0.5, -0.5, -0.5, 0.5]


@pytest.mark.parametrize(
    "rewards",
    [
        [1, 1, 1, 1],
        [0, 0, 0],
        [0.7] * 8,
        [1 / 3] * 5,
        [0.1 + 0.2, 0.3, 0.3, 0.3],  # differs in the last bit alone
        [1e6 * (0.1 + 0.2), 3e5, 3e5],
        [0.25],
        [],
    ],
)
@pytest.mark.parametrize("scale", [True, False])
def test_a_group_without_spread_gives_no_update(rewards, scale):
    assert advantages(rewards, scale=scale) == [0.0] * len(rewards)


def test_one_better_member_among_many_gets_a_bounded_advantage():
    found = advantages([0.35] * 7 + [0.95])
    # mean 0.425, std 0.6 / sqrt(8) = 0.21213: 0.525 / 0.21213
    assert found[-1] == pytest.approx(2.4749, abs=1e-3)
    assert max(map(abs, found)) <= 10


def test_missing_rewards_are_masked_and_enter_no_mean():
    found = advantages([1.0, None, 0.0, math.nan, math.inf])
    assert found[1] is found[3] is found[4] is None
    assert [found[0], found[2]] == advantages([1.0, 0.0])


def test_small_but_real_spreads_count():
    assert advantages([1e-3, 2e-3])[1] == pytest.approx(0.5e-3 / (1e-3 / math.sqrt(2) + 1e-6))


def test_advantages_sum_to_0_follow_their_member_and_ignore_a_shift():
    rewards = [0.1, 0.9, 0.4, 0.4, 0.77]
    found = advantages(rewards)
    assert math.fsum(found) == pytest.approx(0)
    assert advantages([r + 5 for r in rewards]) == pytest.approx(found)
    order = random.Random(1).sample(range(5), 5)
    assert advantages([rewards[i] for i in order]) == pytest.approx([found[i] for i in order])


def test_the_spread_inside_groups_is_not_the_spread_across_them():
    within, across = spreads([[-8] * 4, [2] * 4])
    # across: mean -3, 8 squares of 25, divisor 7
    assert (within, across) == (0.0, pytest.approx(math.sqrt(200 / 7)))
    assert spreads([]) == (0.0, 0.0)
