"""ET-Agent's equations 1 to 3 and the sigma of each round."""

from __future__ import annotations

import itertools
import math

import pytest

from tircli.papers.etagent import behaviour_score, sigma_of_round, total_reward, z_scores

GRID = [*itertools.product([0, 1, 2.5, 7, 1e6], [0, 2, 3.25], [0, 0.05, 0.1, 2])]


def test_a_score_by_hand():
    # 1 / (1 + exp(0.1 (1 - 2))) = 1 / (1 + 0.904837)
    assert behaviour_score(1, 2, 0.1) == pytest.approx(0.524979, abs=1e-6)


@pytest.mark.parametrize(("v", "mean", "sigma"), GRID)
def test_a_score_lies_in_0_to_1_and_falls_with_v(v, mean, sigma):
    score = behaviour_score(v, mean, sigma)
    assert 0 <= score <= 1
    assert behaviour_score(v + 1, mean, sigma) <= score


@pytest.mark.parametrize(("v", "mean", "sigma"), GRID)
def test_as_far_below_the_mean_as_above_gives_the_complement(v, mean, sigma):
    mirrored = behaviour_score(2 * mean - v, mean, sigma)
    assert behaviour_score(v, mean, sigma) + mirrored == pytest.approx(1)


def test_extreme_distances_do_not_overflow():
    assert behaviour_score(1e300, 0, 1) == 0.0
    assert behaviour_score(-1e300, 0, 1) == 1.0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_distance_that_is_no_number_is_refused(bad):
    with pytest.raises(ValueError, match="sigma"):
        behaviour_score(bad, 2, 0.1)


def test_lengths_are_standardised_with_the_population_std():
    # mean 200, std sqrt((100^2 + 100^2) / 4) = 70.71
    assert z_scores([100, 200, 300, 200]) == pytest.approx([-math.sqrt(2), 0, math.sqrt(2), 0])


@pytest.mark.parametrize("values", [[], [7], [5, 5, 5], [0.1 + 0.2] * 4])
def test_equal_lengths_have_score_0(values):
    assert z_scores(values) == [0.0] * len(values)


def test_z_scores_have_mean_0_and_std_1_and_ignore_scale():
    values = [3, 14, 15, 92, 65]
    z = z_scores(values)
    assert math.fsum(z) == pytest.approx(0)
    assert math.fsum(x * x for x in z) / 5 == pytest.approx(1)
    assert z_scores([10 * v + 7 for v in values]) == pytest.approx(z)


@pytest.mark.parametrize(("gain", "expected"), [(1, 0.281020), (2, 1.124078)])
def test_the_total_by_hand(gain, expected):
    f_tool, f_len = behaviour_score(1, 2, 0.1), behaviour_score(-math.sqrt(2), 0, 0.1)
    assert total_reward(1, f_tool, f_len, gain=gain) == pytest.approx(expected, abs=1e-6)


def test_a_wrong_and_malformed_trajectory_has_the_format_reward_alone():
    assert total_reward(0.0, 0.5, 0.5, -1.0) == -1.0


def test_sigma_falls_by_equal_steps():
    sigmas = [sigma_of_round(0.1, r, 3) for r in (1, 2, 3)]
    assert sigmas == pytest.approx([0.1, 0.2 / 3, 0.1 / 3])
    assert sigma_of_round(0.1, 1, 1) == 0.1


@pytest.mark.parametrize(("r", "R"), [(0, 3), (4, 3), (1, 0)])
def test_a_round_outside_the_rounds_is_refused(r, R):
    with pytest.raises(ValueError, match="rounds count from 1"):
        sigma_of_round(0.1, r, R)
