"""The body of `tir judge`: trajectories in, the same with `correct`, `judge` and `reward` out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

from tircli import jsonl, rewards
from tircli.answers import PERCENT, UNITS, Rules
from tircli.audit import Audit
from tircli.engines.build import Builder
from tircli.judge import judgeable
from tircli.llm_judge import Asking, LLMJudge
from tircli.panel import Panel
from tircli.progress import Progress
from tircli.records import Group, InputError, Json, Trajectory
from tircli.stages import Skips, say, side_file
from tircli.stages.calls_table import CallsTable
from tircli.stages.coverage import Coverage, failed, summary
from tircli.stages.stream import Take, drive, each


def run(
    *,
    input: str,
    output: str,
    concurrency: int,
    report: str | None,
    audit: str | None,
    overwrite: bool,
    resume: bool,
    on_error: str,
    quiet: bool,
    **options: Any,
) -> int:
    """Exit code of `tir judge`."""
    skips = Skips(on_error)
    report_file = side_file("--report", report, overwrite or resume)
    audit_file = side_file("--audit", audit, overwrite or resume)
    plan = _plan(skips, audit is not None, concurrency, **options)
    auditor = plan.panel.auditor() if audit_file else None
    progress = Progress(quiet=quiet)
    at_once = plan.panel.asks or auditor is not None
    sort = resume or at_once
    with jsonl.Writer(output, overwrite=overwrite, resume=resume, ordered=sort) as writer:
        work = _Work(writer, progress, plan, sort=sort)
        items = work.items(jsonl.groups(jsonl.read(input, skips.action), say))
        if not at_once:
            for item in items:
                for trajectory in item.todo:
                    plan.panel.by_rule(trajectory)
                work.end(item)
        else:
            drive(items, partial(_ask, work, plan.panel, auditor, concurrency))
        writer.finish(work.order)
    plan.table.save()
    progress.show(end=True)
    result = work.coverage.report()
    if plan.panel.llm is not None:
        result["llm"] = dict(plan.panel.llm.counts)
    if not quiet or result["ungraded"]:
        say(summary(result))
    if report_file is not None:
        report_file.write_bytes(jsonl.encode(result))
    if audit_file is not None and auditor is not None:
        audit_file.write_bytes(jsonl.encode(auditor.report()))
    return 3 if skips.count or result["errors"] or work.coverage.lost else 0


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a run does to each group."""

    panel: Panel
    fill: Callable[[Group], None] | None
    """Writes the rewards."""
    table: CallsTable
    made: Json
    """All that the verdicts and rewards depend on; stands in each record."""


def _plan(
    skips: Skips,
    audit: bool,
    concurrency: int,
    *,
    judge: str,
    percent: str,
    units: str,
    second_opinion: bool,
    redundancy: bool,
    judge_model: str | None,
    reward: str | None,
    calls_table: str | None,
    **options: Any,
) -> _Plan:
    """The plan of the options; what is not named here is of the model or of the reward."""
    settings = rewards.Settings(**{f.name: options.pop(f.name) for f in fields(rewards.Settings)})
    settings.check_used_by(reward)
    asking = Asking(**{f.name: options.pop(f.name) for f in fields(Asking)})
    asks = {"--judge llm": judge == "llm", "--second-opinion": second_opinion}
    asks |= {"--redundancy": redundancy}
    _check_model(asks, judge_model, audit, asking)
    if calls_table and (reward in (None, "correct", "otc-ppo", "et") or settings.otc_n == "local"):
        raise InputError("--calls-table: nothing reads it; add --reward otc-grpo --otc-n global")
    rules = _rules(judge, percent, units)
    made: Json = {"judge": judge} | rules.changed()
    llm = None
    if judge_model is not None:
        builder = _builder(judge_model, concurrency, **options)
        llm = LLMJudge(builder.build, asking, concurrency)
        if any(asks.values()):
            flags = {"second_opinion": second_opinion, "redundancy": redundancy}
            made |= {flag: True for flag, given in flags.items() if given}
            made |= {"engine": options["judge_engine"], "model": judge_model}
            made |= builder.made | asking.changed()
    panel = Panel(
        judge, llm, second_opinion=second_opinion, redundancy=redundancy, rules=rules, warn=say
    )
    table = CallsTable(calls_table)
    if reward is None:
        return _Plan(panel, None, table, made)
    pay = rewards.load(reward)

    def fill(group: Group) -> None:
        rewards.fill(group, pay, settings, table.table, skips.action)

    return _Plan(panel, fill, table, made | {"reward": reward} | settings.changed())


def _rules(judge: str, percent: str, units: str) -> Rules:
    """How strict the rule judge is."""
    for option, value, known in (("percent", percent, PERCENT), ("units", units, UNITS)):
        if value not in known:
            raise InputError(f'--{option}: "{value}"; choose {" or ".join(known)}')
    rules = Rules(percent, units)
    if judge == "llm" and rules.changed():
        raise InputError(f"--{next(iter(rules.changed()))}: only the judges auto and math read it")
    return rules


def _builder(
    model: str,
    concurrency: int,
    *,
    judge_engine: str,
    judge_url: list[str] | None,
    judge_api_key_env: str | None,
    judge_option: list[str] | None,
) -> Builder:
    if judge_url and judge_engine != "openai":
        raise InputError("--judge-url: only --judge-engine openai has servers")
    if judge_engine == "openai" and not judge_url:
        raise InputError(
            "--judge-url: missing; name a server, for example http://localhost:8000/v1"
        )
    return Builder(
        judge_engine,
        model,
        judge_option or (),
        base_urls=judge_url or (),
        api_key_env=judge_api_key_env,
        concurrency=concurrency,
    )


def _check_model(asks: dict[str, bool], model: str | None, audit: bool, asking: Asking) -> None:
    """Refuse options that clash, or that nothing reads."""
    if asks["--judge llm"] and asks["--second-opinion"]:
        raise InputError("--second-opinion: --judge llm asks the model first; choose a rule judge")
    for option, asked in asks.items():
        if asked and model is None:
            raise InputError(f"{option}: needs --judge-model, a model folder or a served name")
    if model is not None and not any(asks.values()) and not audit:
        raise InputError(f"--judge-model: nothing asks it; add {', '.join(asks)} or --audit")
    if model is None and asking.changed():
        option = "--" + next(iter(asking.changed())).replace("_", "-")
        raise InputError(f"{option}: nothing reads it; add --judge-model")


@dataclass(slots=True)
class _Item:
    """A group under way."""

    group: Group
    """The members; those of an earlier run as they were judged then."""
    fresh: Group
    """The members that are to be written."""
    before: list[float | None]
    """`correct` of each member as it came in."""

    def __len__(self) -> int:
        return len(self.group)

    @property
    def todo(self) -> Group:
        """The members that are to be judged."""
        return [trajectory for trajectory in self.fresh if judgeable(trajectory)]


class _Work:
    """What is to be judged, what was, and where it goes."""

    def __init__(
        self, writer: jsonl.Writer, progress: Progress, plan: _Plan, *, sort: bool
    ) -> None:
        self.order: list[str] | None = [] if sort else None
        """All ids in the order of the input; None: they are written in that order."""
        self.writer, self.coverage = writer, Coverage()
        self._progress, self._plan = progress, plan

    def items(self, groups: Iterator[Group]) -> Iterator[_Item]:
        """Each group, whole, with what is left to do in it."""
        for group in groups:
            if self.order is not None:
                self.order += [trajectory.id for trajectory in group]
            before = [trajectory.correct for trajectory in group]
            members = [self._kept(t) if t.id in self.writer.kept else t for t in group]
            fresh = [t for t, old in zip(members, group, strict=True) if t is old]
            yield _Item(members, fresh, before)

    def _kept(self, trajectory: Trajectory) -> Trajectory:
        """The record of an earlier run; the new one where the model failed then."""
        old = self.writer.record(trajectory.id)
        made = (old.judge or {}).get("made")
        if judgeable(old) and made != self._plan.made:
            raise InputError(
                f'--resume: "{old.id}" in {self.writer.path} was judged with {made}, now it is '
                f"{self._plan.made}; use the same options or --overwrite"
            )
        return trajectory if failed(old) else old

    def end(self, item: _Item) -> None:
        """Reward the group, count it, and write what is new in it."""
        for trajectory in item.todo:
            assert trajectory.judge is not None
            trajectory.judge["made"] = self._plan.made
        if self._plan.fill is not None:
            self._plan.fill(item.group)
        elif any(t.correct != old for t, old in zip(item.group, item.before, strict=True)):
            # A reward rests on the verdicts of its whole group.
            for trajectory in item.group:
                trajectory.reward = trajectory.reward_parts = None
        for trajectory in item.group:
            self.coverage.add(trajectory)
        for trajectory in item.fresh:
            self.writer.write(trajectory)
            self._progress.add(trajectory)


async def _ask(
    work: _Work, panel: Panel, auditor: Audit | None, concurrency: int, take: Take[_Item]
) -> None:
    """Judge all and write all: to a file as groups end, to a pipe in the order of the input."""

    async def judge(item: _Item) -> None:
        await asyncio.gather(*(panel.judge(trajectory) for trajectory in item.todo))
        if auditor is not None:
            await auditor.add(item.group, item.before)

    waiting: dict[int, _Item] = {}
    expected = 0
    try:
        async with aclosing(each(take, judge, concurrency)) as ended:
            async for number, item in ended:
                if work.writer.path is not None:
                    work.end(item)
                    continue
                waiting[number] = item
                while expected in waiting:
                    work.end(waiting.pop(expected))
                    expected += 1
    finally:
        if panel.llm is not None:
            await panel.llm.aclose()
