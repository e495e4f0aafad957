"""The rewards as other trainers call them: a reward function for TRL, scores for verl.

Those hand over single samples, or the part of a group that one process holds; what needs the
group is computed where the group is whole. Both carry our records beside their own text, in which
the words of a tool and of the model cannot be told apart.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tircli import judge, rewards
from tircli.checks import from_json
from tircli.papers.otc import LeastCalls
from tircli.records import InputError, Json, Trajectory
from tircli.rewards import Facts, Reward, Score, Settings

Member = tuple[str, "int | None", "Facts | None"]
"""A sample's group, the size of that group if known, and its facts (None: it failed)."""
ALONE = ("correct", "otc-ppo")
"""Rewards that need no group."""


def member(record: Json | Trajectory) -> Member:
    """What a record gives to its group; the rule judge is asked where it has no verdict yet."""
    trajectory = from_json(record) if isinstance(record, Mapping) else record
    if trajectory.judge is None:
        list(judge.judge([[trajectory]]))
    return trajectory.group, trajectory.k, rewards.facts(trajectory)


def score_members(
    reward: Reward, members: Sequence[Member], settings: Settings, table: LeastCalls
) -> list[Score]:
    """The scores of members of any groups, in order. Raises InputError for part of a group."""
    groups: dict[str, list[int]] = {}
    for i, (question, _, _) in enumerate(members):
        groups.setdefault(question, []).append(i)
    scores = [Score()] * len(members)
    for question, places in groups.items():
        k = max(members[i][1] or 0 for i in places)
        if len(places) < k:
            raise InputError(
                f'group "{question}": {len(places)} of its {k} samples are here; '
                "gather it from all processes and steps before the reward"
            )
        group = [members[i][2] for i in places]
        for i, one in zip(places, rewards.score(reward, group, settings, table), strict=True):
            scores[i] = one
    return scores


def trl_reward(
    name: str, settings: Settings | None = None, table: LeastCalls | None = None
) -> Callable[..., list[float | None]]:
    """A function for `GRPOTrainer(reward_funcs=...)` that computes the reward called `name`.

    It reads the argument `trajectory`, one record a sample, which a `rollout_func` returns under
    that key (or a column of the data set holds); prompts and completions are not looked at. Under
    several processes each holds part of a group only: the facts of all are gathered first. Where
    there is no reward stands None, which TRL leaves out of the group's mean.
    """
    reward, table = rewards.load(name), LeastCalls() if table is None else table
    chosen = Settings() if settings is None else settings

    def function(
        prompts: Sequence[Any],
        completions: Sequence[Any],
        trajectory: Sequence[Json | Trajectory],
        **_: Any,
    ) -> list[float | None]:
        everyone, mine = _gathered([member(record) for record in trajectory])
        scores = score_members(reward, [m for part in everyone for m in part], chosen, table)
        start = sum(len(part) for part in everyone[:mine])
        return [score.total for score in scores[start : start + len(trajectory)]]

    function.__name__ = name
    return function


def _gathered(mine: list[Member]) -> tuple[list[list[Member]], int]:
    """The members of all processes, and which part is this one's."""
    if "accelerate" not in sys.modules:
        return [mine], 0
    from accelerate import PartialState
    from accelerate.utils import gather_object

    state = PartialState()
    if state.num_processes == 1:
        return [mine], 0
    return gather_object([mine]), state.process_index


def verl_compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Json,
    reward: str = "correct",
    **settings: Any,
) -> dict[str, float]:
    """`score` and the facts of one sample, for verl's `custom_reward_function`; NaN = unknown.

    It reads the record in `extra_info["tir"]`, which the agent loop leaves there. Of a reward that
    needs the group, `score` is the correctness alone: `verl_group_scores` gives the reward.
    """
    group, _, facts = member(extra_info["tir"])
    if facts is None:
        facts = Facts(group, None, None, 0)
    name = reward if reward in ALONE else "correct"
    chosen = Settings(**settings) if reward in ALONE else Settings()
    (one,) = rewards.score(rewards.load(name), [facts], chosen, LeastCalls())
    numbers = {
        "score": one.total,
        "correct": facts.correct,
        "calls": facts.calls,
        "length": facts.length,
        "well_formed": facts.well_formed,
    }
    return {key: math.nan if value is None else float(value) for key, value in numbers.items()}


def verl_group_scores(
    extra_infos: Sequence[Json], name: str, settings: Settings, table: LeastCalls
) -> list[float | None]:
    """The rewards of a whole batch, for a trainer's hook before the advantages; None = mask it.

    A batch holds whole groups, on the driver; `table` lives there and goes into its checkpoints.
    """
    members = [member(info["tir"]) for info in extra_infos]
    return [one.total for one in score_members(rewards.load(name), members, settings, table)]
