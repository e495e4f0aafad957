"""Rewards: the facts of a group in, a score for each member out (SPEC 3).

One core for `tir judge --reward`, `tir rl` and the faces for other trainers. A reward is
`(members, settings, table) -> scores`; your own is named `package.module:function`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from tircli import judge, registry
from tircli.jsonl import Skip
from tircli.papers import etagent, otc
from tircli.papers.otc import LeastCalls
from tircli.records import Group, InputError, Json, RecordError, Trajectory

BUILT_IN = {
    "correct": "tircli.rewards:correct",
    "otc-ppo": "tircli.rewards:otc_ppo",
    "otc-grpo": "tircli.rewards:otc_grpo",
    "et": "tircli.rewards:et",
}


@dataclass(frozen=True, slots=True)
class Facts:
    """What a reward may look at: numbers, so that they can cross processes."""

    question: str
    """The group's id."""
    correct: float | None
    """0..1; None = the judge gave no verdict: no reward, but calls and length count."""
    solved: bool | None
    """Exact match where the judge tells it, else `correct` above judge.SOLVED."""
    calls: int
    length: int | None = None
    """Model tokens, observations excluded; None = the record holds no ids."""
    well_formed: bool | None = None
    """None = the protocol is not known, so the form was not checked."""
    limit: int | None = None
    """Most calls of one tool that the protocol allows."""

    @property
    def finite(self) -> bool:
        """True if no number is NaN or infinite."""
        return all(math.isfinite(x) for x in (self.correct or 0.0, self.calls, self.length or 0))


@dataclass(frozen=True, slots=True)
class Score:
    """The reward of one trajectory."""

    total: float | None = None
    """None = no reward: masked, never 0."""
    parts: Json | None = None
    problem: str | None = None
    """Why a finished and graded trajectory has no reward."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The options of all rewards, named as on the command line."""

    otc_c: float | None = None  # "the protocol's tool limit" (SPEC 3.5)
    """Smoothness of OTC; None = the protocol's limit of calls."""
    otc_alpha: float = 1.0
    otc_n: str = "global"  # "more stable and better optimization" (OTC, section 4.1)
    """Least calls: `global` = ever seen for the question, `local` = in this group."""
    otc_literal: bool = False
    """Fewer calls than a stale n: the printed formula instead of 1."""
    otc_scale_format: bool = False
    """The tool reward scales the format part too."""
    reward_wrong: float = 0.0
    """`correct`, `otc-*`: the reward of a wrong answer; ToRL: -1."""
    reward_format: float = 0.0
    """`correct`, `otc-*`: added where the form is right."""
    et_sigma_tool: float = 0.1  # "initial values of both types of sigma are set to 0.1"
    et_sigma_len: float = 0.1  # likewise (ET-Agent, Details in RL Training)
    et_gain: float = 1.0
    """Factor on both behaviour scores; the authors' code has 2."""
    et_malformed: str = "add"
    """A malformed trajectory: `add` -1, or `replace` the reward by -1."""
    round: int = 1
    rounds: int = 1

    def __post_init__(self) -> None:
        for name, choices in (("otc_n", ("local", "global")), ("et_malformed", ("add", "replace"))):
            if getattr(self, name) not in choices:
                raise _bad(name, getattr(self, name), f"choose {' or '.join(choices)}")
        positive = ("otc_c", "otc_alpha", "et_gain")
        for name in (*positive, "reward_wrong", "reward_format", "et_sigma_tool", "et_sigma_len"):
            value = getattr(self, name)
            if value is None:
                continue
            if not math.isfinite(value):
                raise _bad(name, value, "write a finite number")
            if (name in positive and value <= 0) or (name.startswith("et_sigma") and value < 0):
                raise _bad(
                    name, value, f"write a number {'above' if name in positive else 'from'} 0"
                )
        if not 1 <= self.round <= self.rounds:
            raise _bad("round", self.round, f"write 1 to {self.rounds}, or raise --rounds")

    def changed(self) -> Json:
        """The options that are not at their default."""
        pairs = ((f.name, getattr(self, f.name), f.default) for f in fields(self))
        return {name: value for name, value, default in pairs if value != default}

    def check_used_by(self, reward: str | None) -> None:
        """Raise InputError if an option was given that `reward` does not read."""
        own = {"otc-ppo": "otc", "otc-grpo": "otc", "et": "et", "correct": "correct"}.get(
            reward or ""
        )
        if reward is not None and own is None:
            return
        for name in self.changed():
            of = name.partition("_")[0]
            needs = {"otc": ("otc",), "reward": ("otc", "correct")}.get(of, ("et",))
            if own not in needs:
                what = " or ".join(f"--reward {n}" for n in BUILT_IN if n.startswith(needs))
                raise InputError(f"{_option(name)}: nothing reads it; add {what}")


Reward = Callable[[Sequence[Facts], Settings, LeastCalls], "list[Score]"]


def load(name: str) -> Reward:
    """The reward called `name`. Raises InputError."""
    reward: Reward = registry.load("reward", name, BUILT_IN)
    return reward


def facts(trajectory: Trajectory) -> Facts | None:
    """What a reward reads of a judged trajectory; None if it failed or has not ended."""
    if not judge.judgeable(trajectory):
        return None
    details = trajectory.judge or {}
    violations = details.get("format")
    protocol = judge.protocol_of(trajectory)
    limits = {} if protocol is None else protocol.limits
    per_tool = [n for name, n in limits.items() if name not in ("calls", "turns", "turn_tokens")]
    solved = None
    if trajectory.correct is not None:
        solved = bool(details.get("em", trajectory.correct > judge.SOLVED))
    return Facts(
        question=trajectory.group,
        correct=trajectory.correct,
        solved=solved,
        calls=trajectory.calls,
        length=trajectory.model_tokens if trajectory.segments else None,
        well_formed=None if violations is None else not violations,
        limit=max(per_tool, default=None),
    )


def score(
    reward: Reward, members: Sequence[Facts | None], settings: Settings, table: LeastCalls
) -> list[Score]:
    """The scores of one group, in its order; `table` learns from it.

    A member that is None, or holds a number that is not finite, has no reward and enters no
    mean; one without a verdict has no reward.
    """
    scores = [
        Score(problem=None if m is None or m.finite else "a fact is no finite number")
        for m in members
    ]
    usable = [(i, m) for i, m in enumerate(members) if m is not None and m.finite]
    if not usable:
        return scores
    given = reward([m for _, m in usable], settings, table)
    for (i, member), one in zip(usable, given, strict=True):
        if member.correct is None:
            continue
        if one.total is not None and not math.isfinite(one.total):
            one = Score(problem=f"it came out as {one.total}")
        scores[i] = one
    return scores


def fill(
    group: Group, reward: Reward, settings: Settings, table: LeastCalls, skip: Skip | None = None
) -> None:
    """Write `reward` and `reward_parts` into a judged group. Raises RecordError without `skip`."""
    scores = score(reward, [facts(trajectory) for trajectory in group], settings, table)
    for trajectory, one in zip(group, scores, strict=True):
        trajectory.reward, trajectory.reward_parts = one.total, one.parts
        if one.problem is not None:
            error = RecordError(f'trajectory "{trajectory.id}": no reward: {one.problem}')
            if skip is None:
                raise error
            skip(error)


def correct(members: Sequence[Facts], settings: Settings, table: LeastCalls) -> list[Score]:
    """r_correct (SPEC 3.1), with a format part if one is set."""
    scores = []
    for member in members:
        right, form = _r_phi(member, settings)
        scores.append(Score(right + form, {"correct": right, "format": form}))
    return scores


def otc_ppo(members: Sequence[Facts], settings: Settings, table: LeastCalls) -> list[Score]:
    """OTC of each trajectory alone: eq. 5 times r_phi (SPEC 3.2, 3.5)."""
    return [_otc(member, settings, lambda m, c: otc.tool_reward_ppo(m, c)) for member in members]


def otc_grpo(members: Sequence[Facts], settings: Settings, table: LeastCalls) -> list[Score]:
    """OTC against the least calls known for the question: eq. 6 times r_phi (SPEC 3.3 to 3.5).

    The group's own correct trajectories lower n first, so that none has m < n. With
    `otc_literal` the stored n stands until the group is scored.
    """
    seen = LeastCalls()
    if settings.otc_n == "global":
        seen.load({m.question: n for m in members if (n := table.get(m.question)) is not None})
    stale = seen.state_dict() if settings.otc_literal else {}
    for member in members:
        if member.solved:
            seen.observe(member.question, member.calls)
    table.merge(seen)
    scores = []
    for member in members:
        n = stale.get(member.question, seen.get(member.question))
        tool = None if n is None else partial(_against, n)
        scores.append(_otc(member, settings, tool, {"n": n}))
    return scores


def _against(n: int, m: int, c: float) -> float:
    return otc.tool_reward_grpo(m, n, c)


def _otc(
    member: Facts,
    settings: Settings,
    tool: Callable[[int, float], float] | None,
    parts: Json | None = None,
) -> Score:
    """Eq. 7; without `tool` (no n is known) or for a reward not above 0, r_phi as it is."""
    right, form = _r_phi(member, settings)
    scaled = right + form if settings.otc_scale_format else right
    c = member.limit if settings.otc_c is None else settings.otc_c
    if c is None:
        return Score(problem="its protocol sets no limit of calls to be c; give --otc-c")
    parts = {"correct": right, "tool": None, "format": form, "c": c} | (parts or {})
    if tool is None or scaled <= 0:
        return Score(right + form, parts)
    r_tool = tool(member.calls, c)
    total = otc.total_reward(scaled, r_tool, settings.otc_alpha) + (right + form - scaled)
    return Score(total, parts | {"tool": r_tool})


def _r_phi(member: Facts, settings: Settings) -> tuple[float, float]:
    """`(r_correct, format part)` of the reward without regard to tools."""
    right = 1.0 if member.solved else settings.reward_wrong
    return right, settings.reward_format if member.well_formed else 0.0


def et(members: Sequence[Facts], settings: Settings, table: LeastCalls) -> list[Score]:
    """ET-Agent's reward: correctness, scaled down by calls and length above the group's (SPEC 3.6).

    Every member counts in the means. Lengths are needed unless `et_sigma_len` is 0.
    """
    if settings.et_sigma_len and any(member.length is None for member in members):
        problem = "a trajectory of its group has no token ids to count; give --et-sigma-len 0"
        return [Score(problem=problem) for _ in members]
    r, rounds = settings.round, settings.rounds
    sigma_tool = etagent.sigma_of_round(settings.et_sigma_tool, r, rounds)
    sigma_len = etagent.sigma_of_round(settings.et_sigma_len, r, rounds)
    mean = math.fsum(member.calls for member in members) / len(members)
    scores = []
    for member, z in zip(members, etagent.z_scores([m.length or 0 for m in members]), strict=True):
        f_tool = etagent.behaviour_score(member.calls, mean, sigma_tool)
        f_len = etagent.behaviour_score(z, 0.0, sigma_len)
        r_corr, r_format = member.correct or 0.0, -1.0 if member.well_formed is False else 0.0
        total = etagent.total_reward(r_corr, f_tool, f_len, r_format, settings.et_gain)
        if r_format and settings.et_malformed == "replace":
            total = r_format
        parts = {"correct": r_corr, "tool": f_tool, "length": f_len, "format": r_format}
        scores.append(Score(total, parts))
    return scores


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def _bad(name: str, value: Any, remedy: str) -> InputError:
    return InputError(f"{_option(name)}: {value}; {remedy}")
