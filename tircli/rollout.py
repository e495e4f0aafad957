"""The agent loop: one coroutine a trajectory; while one waits for a tool, others generate.

Token ids are the record (SPEC 1.2): what was sampled is appended as it was sampled, and an
observation is encoded once, alone. Model text is never encoded.
"""

from __future__ import annotations

import asyncio
import copy
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from tircli import protocols
from tircli.engines import Completion, Engine, Sampling
from tircli.protocols import Answer, Call, Protocol
from tircli.records import (
    Json,
    Segment,
    ToolUnavailable,
    ToolUse,
    Trajectory,
    TurnError,
    stable_seed,
)
from tircli.tools import Tool, ToolResult

AfterTool = Callable[[Trajectory, ToolUse], "str | None"]
"""May give a text that is inserted after an observation."""


@dataclass(frozen=True)
class Settings:
    """What a run samples with; stored in each record's `made`."""

    max_tokens: int = 4096
    """Model tokens of a whole trajectory."""
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    final_turn: bool = True
    """After the last call or turn one more turn without tools is given."""
    tokens: bool = True
    """Keep ids and log-probabilities in the record."""
    top_logprobs: int = 1
    tool_tries: int = 3
    """Tries of a tool that is unavailable."""


def expand(questions: Iterable[Trajectory], k: int) -> Iterator[Trajectory]:
    """Each question `k` times, as trajectories that have not begun; begun ones as they are."""
    for question in questions:
        if question.segments or question.stop is not None:
            yield question
            continue
        for sample in range(k):
            trajectory = copy.copy(question)
            trajectory.id, trajectory.group = f"{question.group}#{sample}", question.group
            trajectory.sample, trajectory.k, trajectory.segments = sample, k, []
            trajectory.meta, trajectory.extra = dict(question.meta), dict(question.extra)
            yield trajectory


async def run(
    trajectories: Iterable[Trajectory],
    loop: AgentLoop,
    concurrency: int,
) -> AsyncIterator[Trajectory]:
    """The trajectories, finished, in the order in which they end; `concurrency` at once."""
    source = iter(trajectories)
    running: set[asyncio.Task[Trajectory]] = set()
    try:
        while True:
            while len(running) < concurrency and (item := next(source, None)) is not None:
                running.add(asyncio.create_task(loop.finish(item)))
            if not running:
                return
            done, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                yield task.result()
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


class AgentLoop:
    """Finishes trajectories with one engine, one protocol and some tools."""

    def __init__(
        self,
        engine: Engine,
        protocol: Protocol,
        tools: Mapping[str, Tool],
        settings: Settings,
        made: Json,
        after_tool: AfterTool | None = None,
    ) -> None:
        self.engine, self.protocol, self.tools = engine, protocol, tools
        self.settings, self.made, self.after_tool = settings, made, after_tool

    async def finish(self, trajectory: Trajectory) -> Trajectory:
        """`trajectory` continued until it stops; a failed turn or tool is recorded in it."""
        if trajectory.stop is not None:
            return trajectory
        trajectory.made = self.made
        try:
            if not trajectory.segments:
                prompt = protocols.messages(self.protocol, trajectory.question)
                text, ids = self.engine.render(prompt)
                trajectory.segments.append(Segment("prompt", text, ids))
            await self._turns(trajectory)
        except (TurnError, ToolUnavailable) as error:
            trajectory.stop = "error"
            trajectory.error = {"type": type(error).__name__, "message": str(error)}
        else:
            trajectory.prediction, flag = self.protocol.predict(trajectory.model_text)
            if flag:
                trajectory.meta = trajectory.meta | {"prediction_flag": flag}
        if not self.settings.tokens:
            for segment in trajectory.segments:
                segment.token_ids = segment.logprobs = None
        return trajectory

    async def _turns(self, trajectory: Trajectory) -> None:
        limits = self.protocol.limits
        turns = sum(segment.role == "model" for segment in trajectory.segments)
        while trajectory.stop is None:
            last = turns >= limits.get("turns", 32)
            capped = trajectory.calls >= limits.get("calls", math.inf)
            if (last or capped) and not self.settings.final_turn:
                trajectory.stop = "turns" if last else "calls"
                return
            forced = last or capped
            found = await self._turn(trajectory, turns, tools=not forced)
            turns += 1
            if isinstance(found, Answer):
                trajectory.stop = "answer"
            elif forced and trajectory.stop is None:
                trajectory.stop = "turns" if last else "calls"
            elif isinstance(found, list) and found:
                for call in found:
                    await self._use(trajectory, call)

    async def _turn(
        self, trajectory: Trajectory, turn: int, tools: bool
    ) -> list[Call] | Answer | None:
        """One model turn, appended; what it holds. Sets `stop` where the turn ends all.

        A stop string inside a thought or a string literal is no end: the turn goes on.
        """
        segment = Segment("model", "", [], [])
        trajectory.segments.append(segment)
        budget = min(
            self.protocol.limits.get("turn_tokens", 4096),
            self.settings.max_tokens - (trajectory.model_tokens or 0),
        )
        while True:
            left = budget - len(segment.token_ids or [])
            if left <= 0:
                trajectory.stop = "length"
                return None
            done = await self.engine.generate(
                trajectory.token_ids or [], self._sampling(trajectory, turn, left, tools)
            )
            self._append(segment, done)
            found = self.protocol.parse(segment.text)
            if isinstance(found, list) and found and tools:
                self._cut(segment, found[-1].end)
                return found
            if isinstance(found, Answer):
                return found
            if done.finish == "stop" and done.token_ids:
                continue
            if done.finish == "length":
                trajectory.stop = "length"
            else:
                finished = self.protocol.finished(segment.text)
                trajectory.stop = "answer" if finished else "eos"
            return None

    def _sampling(self, trajectory: Trajectory, turn: int, left: int, tools: bool) -> Sampling:
        settings = self.settings
        seen = sum(len(s.token_ids or ()) for s in trajectory.segments)
        closes = {detector["close"] for detector in self.protocol.calls}
        stops = self.protocol.stops
        return Sampling(
            max_tokens=left,
            temperature=settings.temperature,
            top_p=settings.top_p,
            stop=stops if tools else tuple(s for s in stops if s not in closes),
            seed=stable_seed(settings.seed, trajectory.id, turn, seen),
            top_logprobs=settings.top_logprobs,
            key=trajectory.id,
            turn=turn,
        )

    def _append(self, segment: Segment, done: Completion) -> None:
        text, ids = done.text, done.token_ids
        if done.stop and done.stop not in text:
            text += done.stop  # A server that hides the stop string: restored once.
        segment.text += text
        segment.token_ids = [*(segment.token_ids or []), *ids]
        if done.logprobs is None or segment.logprobs is None:
            segment.logprobs = None
        else:
            segment.logprobs = [*segment.logprobs, *done.logprobs]
        if done.stop and not self.protocol.keep_stop:
            self._cut(segment, len(segment.text.removesuffix(done.stop)))

    def _cut(self, segment: Segment, end: int) -> None:
        """Drop the whole tokens after character `end`, an end-of-text token included.

        Blank text after a call stays, and a stop string that opens the output block
        (`keep_stop`). A chat with tool messages keeps its turn as it was sampled.
        """
        if self.protocol.tool_message:
            return
        tail = segment.text[end:].strip()
        if not tail or (self.protocol.keep_stop and tail in self.protocol.stops):
            end = len(segment.text)
        ids = segment.token_ids or []
        if not ids:
            segment.text = segment.text[:end]
            return
        low, high = 0, len(ids)
        while low < high:
            middle = (low + high) // 2
            if len(self.engine.decode(ids[:middle])) >= end:
                high = middle
            else:
                low = middle + 1
        if low < len(ids):
            segment.token_ids = ids[:low]
            segment.logprobs = segment.logprobs and segment.logprobs[:low]
            segment.text = self.engine.decode(ids[:low])

    async def _use(self, trajectory: Trajectory, call: Call) -> None:
        """Carry out one call and append its observation, and a hint where there is one."""
        result = await self._result(trajectory, call)
        use = ToolUse(
            call.tool, call.source, result.output, result.status, result.seconds, result.queued
        )
        use.extra = result.extra
        if self.protocol.tool_message:
            text, ids = self.engine.render_turn([{"role": "tool", "content": result.output}])
        else:
            text = self.protocol.wrap(result.output)
            ids = self.engine.encode(text)
        trajectory.segments.append(Segment("tool", text, ids, None, use))
        hint = self.after_tool(trajectory, use) if self.after_tool else None
        if hint:
            trajectory.segments.append(Segment("hint", hint, self.engine.encode(hint)))

    async def _result(self, trajectory: Trajectory, call: Call) -> ToolResult:
        limit = self.protocol.limits.get(call.tool, math.inf)
        used = sum(use.executed and use.name == call.tool for use in trajectory.uses)
        total = self.protocol.limits.get("calls", math.inf)
        if call.problem:
            return ToolResult(call.problem, "refused")
        if call.tool not in self.tools:
            known = ", ".join(self.tools) or "none"
            return ToolResult(f"Error: no tool {call.tool}; there is {known}.", "refused")
        if used >= limit or trajectory.calls >= total:
            return ToolResult(self.protocol.limit_text, "limit")
        return await self._tried(lambda: self.tools[call.tool].run(call.source, trajectory.id))

    async def _tried(self, attempt: Callable[[], Awaitable[ToolResult]]) -> ToolResult:
        """The result of an attempt, repeated with growing pauses while the tool is unavailable."""
        for number in range(1, self.settings.tool_tries + 1):
            try:
                result = await attempt()
            except ToolUnavailable:
                if number == self.settings.tool_tries:
                    raise
            else:
                if result.status != "unavailable":
                    return result
                if number == self.settings.tool_tries:
                    break
            await asyncio.sleep(0.2 * 2**number)
        raise ToolUnavailable(result.output)
