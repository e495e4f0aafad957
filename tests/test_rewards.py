"""Rewards of a group: SPEC 3, from facts and from records."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from tircli import rewards
from tircli.papers.otc import LeastCalls
from tircli.records import InputError, RecordError, Segment, ToolUse, Trajectory
from tircli.rewards import Facts, Score, Settings


def member(correct: float | None = 1.0, calls: int = 0, length: int = 100, **more) -> Facts:
    solved = None if correct is None else correct > 0.8
    facts = Facts("q", correct, solved, calls, length, well_formed=True, limit=4)
    return replace(facts, **more)


def totals(name, members, table=None, **settings):
    table = LeastCalls() if table is None else table
    scores = rewards.score(rewards.load(name), members, Settings(**settings), table)
    return [score.total for score in scores]


def test_correct_is_1_or_0():
    assert totals("correct", [member(1.0), member(0.0)]) == [1, 0]


def test_a_wrong_answer_may_cost_as_in_torl():
    assert totals("correct", [member(1.0), member(0.0)], reward_wrong=-1) == [1, -1]


def test_alone_with_the_protocols_limit_as_c():
    found = totals("otc-ppo", [member(calls=m) for m in range(5)])
    assert found == pytest.approx([1, 0.8660, 0.7071, 0.5878, 0.5], abs=5e-5)
    found = totals("otc-ppo", [member(calls=m) for m in range(5)], otc_c=3)
    assert found == pytest.approx([1, 0.8090, 0.6235, 0.5, 0.4154], abs=5e-5)


@pytest.mark.parametrize("name", ["otc-ppo", "otc-grpo"])
def test_without_a_limit_c_must_be_given(name):
    (score,) = rewards.score(rewards.load(name), [member(limit=None)], Settings(), LeastCalls())
    assert score.total is None and "--otc-c" in score.problem


@pytest.mark.parametrize("n", ["local", "global"])
def test_the_least_calls_of_the_group_get_1(n):
    found = totals("otc-grpo", [member(calls=m) for m in (3, 1, 2)], otc_n=n)
    # n = 1: sin(3 pi / 4), 1, sin(2 pi / 3)
    assert found == pytest.approx([0.7071, 1, 0.8660], abs=5e-5)


def test_wrong_members_set_no_n_and_get_0():
    assert totals("otc-grpo", [member(0.0, 0), member(1.0, 2)]) == [0, 1]


def test_a_half_right_answer_sets_no_n_and_has_no_tool_reward():
    half = member(0.5, 0, solved=False)
    scores = rewards.score(
        rewards.load("otc-grpo"), [half, member(1.0, 2)], Settings(), LeastCalls()
    )
    assert [s.total for s in scores] == [0, 1]
    assert [s.parts["tool"] for s in scores] == [None, 1]


def test_all_wrong_and_no_n_gives_0_and_leaves_the_table_empty():
    table = LeastCalls()
    assert totals("otc-grpo", [member(0.0, m) for m in (0, 2)], table) == [0, 0]
    assert table.state_dict() == {}


def test_all_correct_without_calls_gives_1():
    assert totals("otc-grpo", [member()] * 3) == [1, 1, 1]


def test_the_least_calls_ever_seen_hold_over_epochs():
    table = LeastCalls()
    assert totals("otc-grpo", [member(calls=1), member(calls=2)], table)[0] == 1
    # The second epoch has no trajectory with 1 call: n stays 1, sin(2 pi / 3).
    assert totals("otc-grpo", [member(calls=2)], table) == pytest.approx([0.8660], abs=5e-5)
    assert totals("otc-grpo", [member(calls=2)], table, otc_n="local") == [1]
    assert table.state_dict() == {"q": 1}


def test_a_better_trajectory_than_the_stored_n_gets_1_and_lowers_it():
    table = LeastCalls()
    table.observe("q", 3)
    assert totals("otc-grpo", [member(calls=1)], table) == [1]
    assert table.get("q") == 1


def test_taken_literally_a_better_trajectory_than_the_stored_n_gets_less():
    table = LeastCalls()
    table.observe("q", 3)
    # m = 1, n = 3: sin(pi / 4); the table learns after the score.
    assert totals("otc-grpo", [member(calls=1)], table, otc_literal=True) == [
        pytest.approx(0.70711, abs=1e-5)
    ]
    assert table.get("q") == 1


def test_only_a_reward_above_0_is_scaled():
    settings = {"reward_wrong": -1, "otc_alpha": 2}
    assert totals("otc-grpo", [member(0.0, 3), member(1.0, 1)], **settings) == [-1, 2]


def test_a_format_part_is_scaled_only_on_request():
    members = [member(1.0, 2), member(1.0, 1), member(0.0, 2)]
    plain = totals("otc-grpo", members, reward_format=0.2)
    # n = 1, m = 2: 0.8660 + 0.2; wrong: the format part alone
    assert plain == pytest.approx([1.0660, 1.2, 0.2], abs=5e-5)
    scaled = totals("otc-grpo", members, reward_format=0.2, otc_scale_format=True)
    assert scaled == pytest.approx([1.2 * 0.8660, 1.2, 0.2 * 0.8660], abs=5e-5)
    malformed = [member(1.0, 1, well_formed=False)]
    assert totals("otc-grpo", malformed, reward_format=0.2) == [1]


def test_otc_takes_exact_match_and_et_takes_f1():
    half = member(0.9, solved=False)
    assert totals("otc-grpo", [half]) == [0]
    assert totals("et", [half]) == [pytest.approx(0.9 * 0.25)]


ET = [member(1, 1, 100), member(1, 2, 200), member(1, 3, 300)]
WRONG = member(0, 2, 200, well_formed=False)


def test_et_by_hand():
    assert totals("et", [*ET, WRONG]) == pytest.approx([0.281020, 0.25, 0.220744, -1], abs=1e-6)


def test_et_with_the_released_gain():
    found = totals("et", [*ET, WRONG], et_gain=2)
    assert found == pytest.approx([1.124078, 1, 0.882975, -1], abs=1e-6)


def test_a_malformed_but_correct_trajectory_loses_1_or_becomes_minus_1():
    members = [member(1.0, well_formed=False)]
    assert totals("et", members) == [-0.75]
    assert totals("et", members, et_malformed="replace") == [-1]


def test_sigma_falls_with_the_round():
    third = totals("et", ET, round=3, rounds=3)
    assert third == pytest.approx(totals("et", ET, et_sigma_tool=0.1 / 3, et_sigma_len=0.1 / 3))
    assert third[0] < totals("et", ET, round=1, rounds=3)[0]


def test_et_needs_lengths_unless_they_do_not_count():
    members = [member(), member(length=None)]
    assert totals("et", members) == [None, None]
    assert totals("et", members, et_sigma_len=0) == [0.25, 0.25]


NAMES = ["correct", "otc-ppo", "otc-grpo", "et"]


@pytest.mark.parametrize("name", NAMES)
def test_the_order_of_the_group_is_of_no_matter(name):
    members = [member(1, 3, 70), member(0, 0, 20), member(1, 1, 300), member(1, 1, 90)]
    expected = dict(zip(members, totals(name, members), strict=True))
    for order in itertools.permutations(members):
        found = totals(name, order)
        assert found == pytest.approx([expected[m] for m in order])


@pytest.mark.parametrize("name", NAMES)
def test_rewards_of_well_formed_trajectories_lie_in_0_to_1(name):
    for calls in itertools.product([0, 1, 4], repeat=3):
        for correct in itertools.product([0.0, 1.0], repeat=3):
            members = [member(c, m, 50 * m + 1) for c, m in zip(correct, calls, strict=True)]
            for total, right in zip(totals(name, members), correct, strict=True):
                assert 0 <= total <= 1 and (total > 0) == bool(right)


@pytest.mark.parametrize("name", ["otc-ppo", "otc-grpo", "et"])
def test_of_two_correct_trajectories_the_one_with_fewer_calls_gets_more(name):
    for low, high in itertools.combinations(range(6), 2):
        few, many = totals(name, [member(calls=low), member(calls=high)])
        assert few > many


@pytest.mark.parametrize("name", NAMES)
def test_a_failed_member_has_no_reward_and_enters_no_mean(name):
    members = [member(1, 1, 100), member(1, 2, 150)]
    assert totals(name, [members[0], None, members[1]]) == [
        totals(name, members)[0],
        None,
        totals(name, members)[1],
    ]


@pytest.mark.parametrize("name", NAMES)
def test_a_group_that_failed_whole_has_no_rewards(name):
    assert totals(name, [None, None]) == [None, None]
    assert totals(name, []) == []


def test_an_ungraded_member_has_no_reward_but_its_calls_count_in_the_mean():
    # mean of 0, 0, 3 calls = 1
    found = totals("et", [member(), member(), member(None, 3)], et_sigma_len=0)
    assert found == [pytest.approx(0.5 / (1 + math.exp(-0.1)))] * 2 + [None]
    assert totals("otc-grpo", [member(None, 0), member(1, 2)]) == [None, 1]


@pytest.mark.parametrize("bad", [{"calls": math.nan}, {"length": math.inf}, {"correct": math.nan}])
@pytest.mark.parametrize("name", NAMES)
def test_a_fact_that_is_no_number_fails_its_record_alone(name, bad):
    good = [member(1, 1, 100), member(1, 2, 150)]
    scores = rewards.score(rewards.load(name), [*good, member(**bad)], Settings(), LeastCalls())
    assert [s.total for s in scores[:2]] == totals(name, good)
    assert scores[2].total is None and "finite" in scores[2].problem


def nan_reward(members, settings, table):
    """A user's reward with a fault."""
    return [Score(math.nan if m.calls else 1.0) for m in members]


def test_a_reward_that_is_no_number_fails_its_record_alone():
    scores = rewards.score(nan_reward, [member(), member(calls=1)], Settings(), LeastCalls())
    assert scores == [Score(1.0), Score(problem="it came out as nan")]


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"otc_c": 0}, "--otc-c: 0"),
        ({"otc_c": math.nan}, "--otc-c: nan"),
        ({"otc_alpha": -1}, "--otc-alpha"),
        ({"otc_n": "all"}, "choose local or global"),
        ({"et_sigma_tool": -0.1}, "--et-sigma-tool"),
        ({"et_sigma_len": math.inf}, "--et-sigma-len"),
        ({"et_gain": 0}, "--et-gain"),
        ({"et_malformed": "drop"}, "choose add or replace"),
        ({"round": 4, "rounds": 3}, "--round: 4"),
        ({"round": 0}, "--round: 0"),
    ],
)
def test_options_that_make_no_sense_are_refused(settings, said):
    with pytest.raises(InputError, match=said):
        Settings(**settings)


@pytest.mark.parametrize(
    ("reward", "settings", "said"),
    [
        (None, {"otc_c": 3}, "--reward otc-ppo or --reward otc-grpo"),
        ("et", {"otc_n": "local"}, "--otc-n"),
        ("correct", {"et_gain": 2}, "--reward et"),
        ("et", {"reward_wrong": -1}, "--reward-wrong"),
        ("otc-ppo", {"rounds": 3}, "--rounds"),
    ],
)
def test_options_that_nothing_reads_are_refused(reward, settings, said):
    with pytest.raises(InputError, match=said):
        Settings(**settings).check_used_by(reward)


def test_options_that_are_read_are_accepted():
    Settings(otc_c=3, reward_wrong=-1).check_used_by("otc-grpo")
    Settings(et_gain=2, rounds=3).check_used_by("et")
    Settings(et_gain=2, otc_c=3).check_used_by("mine:reward")
    Settings().check_used_by(None)


def trajectory(**more) -> Trajectory:
    tool = [
        Segment("tool", "", tool=ToolUse("python", "1", "1", s)) for s in ("ok", "error", "limit")
    ]
    segments = [
        Segment("prompt", "?", [1, 2]),
        Segment("model", "a", [3, 4, 5]),
        *tool,
        Segment("hint", "h", [6]),
        Segment("model", "b", [7]),
    ]
    values = {"made": {"protocol": "et"}, "stop": "answer", "correct": 1.0}
    return Trajectory("q#0", "q", "?", segments=segments, **(values | more))


def test_facts_of_a_record():
    judged = trajectory(judge={"name": "math", "why": "", "format": ["no_think"]})
    # Executed calls: ok and error. Model tokens: 3 + 1. The protocol allows 6 calls of each tool.
    assert rewards.facts(judged) == Facts("q", 1.0, True, 2, 4, False, 6)


def test_facts_of_what_failed_or_goes_on_are_none():
    assert rewards.facts(trajectory(stop="error")) is None
    assert rewards.facts(trajectory(stop=None)) is None


def test_exact_match_decides_what_is_solved_where_the_judge_tells_it():
    assert not rewards.facts(trajectory(correct=0.9, judge={"em": 0.0})).solved
    assert rewards.facts(trajectory(correct=0.9, judge={})).solved
    assert not rewards.facts(trajectory(correct=0.8)).solved
    assert rewards.facts(trajectory(correct=None)).solved is None


def test_filling_writes_reward_and_parts():
    group = [trajectory(), trajectory(stop="error", reward=1.0, reward_parts={"old": 1})]
    rewards.fill(group, rewards.load("otc-grpo"), Settings(), LeastCalls())
    parts = {"correct": 1.0, "tool": 1.0, "format": 0.0, "c": 6, "n": 2}
    assert (group[0].reward, group[0].reward_parts) == (1.0, parts)
    assert (group[1].reward, group[1].reward_parts) == (None, None)


def test_a_record_without_a_reward_is_an_error_or_skipped():
    group = [trajectory(made=None), trajectory()]
    fill = [rewards.load("otc-ppo"), Settings(), LeastCalls()]
    with pytest.raises(RecordError, match=r'trajectory "q#0": no reward: .*--otc-c'):
        rewards.fill(group, *fill)
    said = []
    rewards.fill(group, *fill, said.append)
    assert len(said) == 1 and group[0].reward is None and group[1].reward < 1


def test_a_wrong_name_lists_the_rewards():
    with pytest.raises(InputError, match="correct, et, otc-grpo, otc-ppo"):
        rewards.load("otc")
