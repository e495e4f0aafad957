"""The agent loop: one coroutine a trajectory; while one waits for a tool, others generate.

Token ids are the record (SPEC 1.2): what was sampled is appended as it was sampled, and an
observation is encoded once, alone. Model text is never encoded.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping

from tircli import protocols
from tircli.budget import Budget, Counts, RunOver, Settings
from tircli.engines import Completion, Engine, Sampling, continued, has_ids, prompt_segment
from tircli.protocols import Answer, Call, Protocol
from tircli.records import (
    InputError,
    Json,
    Segment,
    ToolUnavailable,
    ToolUse,
    Trajectory,
    TurnError,
    stable_seed,
)
from tircli.schedule import expand, run
from tircli.tools import Tool, ToolResult
from tircli.turns import Turn

__all__ = ["AfterTool", "AgentLoop", "Budget", "Counts", "RunOver", "Settings", "expand", "run"]

AfterTool = Callable[[Trajectory, ToolUse], "str | None"]
"""May give a text that is inserted after an observation."""


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
        *,
        budget: Budget | None = None,
        long_prompts: str = "fail",
    ) -> None:
        self.engine, self.protocol, self.tools = engine, protocol, tools
        self.settings, self.made, self.after_tool = settings, made, after_tool
        self.budget, self.counts = budget or Budget(), Counts()
        self.long_prompts = long_prompts
        """`fail`: a prompt that no context holds stops the run; `skip`: it is an error record."""
        limits = protocol.limits
        self.max_turns = _first(settings.max_turns, limits.get("turns"), 32)
        self.max_calls = _first(settings.max_calls, limits.get("calls"), math.inf)

    async def finish(self, trajectory: Trajectory) -> Trajectory:
        """`trajectory` continued until it stops; a failed turn or tool is recorded in it."""
        if trajectory.stop is not None:
            return trajectory
        trajectory.made = self.made
        seconds = self.settings.max_seconds
        self.counts.running += 1
        try:
            self._begin(trajectory)
            if seconds is None:
                await self._turns(trajectory)
            else:
                await asyncio.wait_for(self._turns(trajectory), seconds)
        except (TurnError, ToolUnavailable) as error:
            trajectory.stop = "error"
            trajectory.error = {"type": type(error).__name__, "message": str(error)}
            self.counts.errors += 1
            self.counts.error = f"{trajectory.id}: {error}"
        except asyncio.TimeoutError:
            if seconds is None:
                raise
            trajectory.stop = "seconds"
        finally:
            self.counts.running -= 1
        if trajectory.stop != "error":
            trajectory.prediction, flag = self.protocol.predict(trajectory.model_text)
            if (printed := self._printed(trajectory)) is not None:
                trajectory.prediction, flag = printed, None
            if flag:
                trajectory.meta = trajectory.meta | {"prediction_flag": flag}
        if not self.settings.tokens:
            for segment in trajectory.segments:
                segment.token_ids = segment.logprobs = None
                if segment.tool is not None:
                    segment.tool.call_tokens = None
        return trajectory

    def _begin(self, trajectory: Trajectory) -> None:
        """Give `trajectory` its prompt, and ids to the segments that somebody edited."""
        if not trajectory.segments:
            trajectory.segments.append(self._prompt(trajectory))
        if not has_ids(self.engine):
            return
        first, *rest = trajectory.segments
        if first.token_ids is None:
            fresh = self._prompt(trajectory)
            if fresh.text != first.text:
                raise InputError(
                    f"trajectory {trajectory.id}: its prompt has no token_ids and is not what "
                    f"--protocol {self.protocol.name} writes; keep the ids or the protocol"
                )
            first.token_ids = fresh.token_ids
        for segment in rest:
            if segment.token_ids is None:
                segment.token_ids = self.engine.encode(segment.text)

    def _prompt(self, trajectory: Trajectory) -> Segment:
        native = not has_ids(self.engine) and self.protocol.tool_message
        prompt = protocols.messages(self.protocol, trajectory.question, native=native)
        functions = [f for f in self.protocol.functions if f["tool"] in self.tools]
        segment = prompt_segment(self.engine, prompt, functions, native=native)
        if "messages" in segment.extra and not native:
            raise InputError(
                f"--protocol {self.protocol.name}: it goes on inside a chat turn, which needs the "
                "chat template; add --engine-option tokenizer=FOLDER or choose --protocol tools"
            )
        context, n_tokens = self.engine.context, len(segment.token_ids or ())
        if context is not None and n_tokens >= context:
            what = (
                f"question {trajectory.group}: its prompt has {n_tokens} tokens, "
                f"the context of {self.engine.model} holds {context}"
            )
            if self.long_prompts == "skip":
                raise TurnError(what)
            raise InputError(f"{what}; shorten it, or add --on-error skip")
        return self._read(segment)

    def _read(self, segment: Segment) -> Segment:
        """`segment`, counted as what the model reads."""
        self.counts.read += len(segment.token_ids or ())
        return segment

    async def _turns(self, trajectory: Trajectory) -> None:
        turns = sum(segment.role == "model" for segment in trajectory.segments)
        while trajectory.stop is None:
            last, capped = turns >= self.max_turns, trajectory.calls >= self.max_calls
            if (last or capped) and not self.settings.final_turn:
                trajectory.stop = "turns" if last else "calls"
                return
            forced = last or capped
            turn = Turn(self.engine.decode, has_ids(self.engine))
            found = await self._turn(trajectory, turn, turns, tools=not forced)
            if turn.text or turn.segment.token_ids:
                trajectory.segments.append(turn.segment)
            turns += 1
            if isinstance(found, Answer):
                trajectory.stop = "answer"
            elif forced and trajectory.stop is None:
                trajectory.stop = "turns" if last else "calls"
            elif isinstance(found, list) and found:
                await self._use(trajectory, turn, found)
                if self._printed(trajectory) is not None:
                    trajectory.stop = "answer"

    def _printed(self, trajectory: Trajectory) -> str | None:
        """The answer that the last program printed, where nothing was written after it."""
        use = trajectory.segments[-1].tool if trajectory.segments else None
        return None if use is None else self.protocol.printed_answer(use)

    async def _turn(
        self, trajectory: Trajectory, turn: Turn, number: int, tools: bool
    ) -> list[Call] | Answer | None:
        """What a model turn holds. Sets `stop` where the turn ends all.

        A stop string inside a thought or a string literal is no end: the turn goes on.
        """
        budget = min(
            self.protocol.limits.get("turn_tokens", 4096),
            self.settings.max_tokens - _sampled(trajectory),
        )
        while True:
            sampling = self._sampling(trajectory, turn, number, budget - turn.n_tokens, tools)
            if sampling.max_tokens <= 0:
                trajectory.stop = "length"
                return None
            done = await self._sample(trajectory, turn, sampling)
            found = self.protocol.parse(turn.text)
            if isinstance(found, list) and found and tools:
                self._cut(turn, found[-1].end, done.stop)
                return found
            if isinstance(found, Answer):
                return found
            if done.finish == "stop" and done.stop and (done.token_ids or done.n_tokens):
                continue
            if done.finish == "length":
                trajectory.stop = "length"
            else:
                finished = self.protocol.finished(turn.text)
                trajectory.stop = "answer" if finished else "eos"
            return None

    async def _sample(self, trajectory: Trajectory, turn: Turn, sampling: Sampling) -> Completion:
        """One request, appended to `turn` and counted."""
        self.counts.check(self.budget)
        done = await continued(self.engine, [*trajectory.segments, turn.segment], sampling)
        if done.finish == "stop" and done.stop is None:
            done.stop = self.protocol.hidden_stop(turn.text + done.text, sampling.stop)
        before = turn.n_tokens
        turn.append(done)
        self.counts.turns += before == 0
        self.counts.tokens += turn.n_tokens - before
        return done

    def _sampling(
        self, trajectory: Trajectory, turn: Turn, number: int, left: int, tools: bool
    ) -> Sampling:
        settings = self.settings
        segments = [*trajectory.segments, turn.segment]
        if has_ids(self.engine):
            seen = sum(len(segment.token_ids or ()) for segment in segments)
            if self.engine.context is not None:
                left = min(left, self.engine.context - seen)
        else:
            seen = sum(len(segment.text) for segment in segments)
        closes = {detector["close"] for detector in self.protocol.calls}
        stops = self.protocol.stops
        return Sampling(
            max_tokens=left,
            temperature=settings.temperature,
            top_p=settings.top_p,
            stop=stops if tools else tuple(s for s in stops if s not in closes),
            seed=stable_seed(settings.seed, trajectory.id, number, seen),
            top_logprobs=settings.top_logprobs,
            key=trajectory.id,
            turn=number,
            tools=tools,
        )

    def _cut(self, turn: Turn, end: int, stop: str | None) -> None:
        """Drop what stands after the call.

        Blank text stays, and a stop string that opens the output block (`keep_stop`). A chat
        with tool messages keeps its turn as it was sampled.
        """
        if self.protocol.tool_message:
            return
        tail = turn.text[end:]
        if stop and not self.protocol.keep_stop:
            tail = tail.removesuffix(stop)
        kept = self.protocol.keep_stop and tail.strip() in self.protocol.stops
        turn.cut(end + len(tail) if kept or not tail.strip() else end)

    async def _use(self, trajectory: Trajectory, turn: Turn, calls: list[Call]) -> None:
        """Carry out the calls of a turn and append the observations, then the hints."""
        uses: list[ToolUse] = []
        for call in calls:
            result = await self._result(trajectory, call, uses)
            use = ToolUse(
                call.tool, call.source, result.output, result.status, result.seconds, result.queued
            )
            use.call_tokens = turn.span(call)
            use.confidence = turn.confidence(use.call_tokens)
            use.extra = result.extra
            uses.append(use)
            self.counts.calls += use.executed
        if self.protocol.tool_message:
            shown = self.engine.render_turn([{"role": "tool", "content": u.output} for u in uses])
        else:
            texts = [self.protocol.wrap(use.output) for use in uses]
            shown = [(text, self.engine.encode(text)) for text in texts]
        for use, (text, ids) in zip(uses, shown, strict=True):
            trajectory.segments.append(self._read(Segment("tool", text, ids, None, use)))
        for use in uses:
            hint = self.after_tool(trajectory, use) if self.after_tool else None
            if hint:
                ids = self.engine.encode(hint)
                trajectory.segments.append(self._read(Segment("hint", hint, ids)))

    async def _result(
        self, trajectory: Trajectory, call: Call, before: list[ToolUse]
    ) -> ToolResult:
        """The result of `call`; `before` are the calls of this turn that came before it."""
        uses = [use for use in [*trajectory.uses, *before] if use.executed]
        limit = self.protocol.limits.get(call.tool, math.inf)
        if call.problem:
            return ToolResult(call.problem, "refused")
        if call.tool not in self.tools:
            known = ", ".join(self.tools) or "none"
            return ToolResult(f"Error: no tool {call.tool}; there is {known}.", "refused")
        if sum(use.name == call.tool for use in uses) >= limit or len(uses) >= self.max_calls:
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


def _first(*values: float | None) -> float:
    """The first value that is given."""
    return next(value for value in values if value is not None)


def _sampled(trajectory: Trajectory) -> int:
    """Model tokens, from the ids or, without them, as the server counted."""
    return sum(
        segment.extra.get("n_tokens", 0) if segment.token_ids is None else len(segment.token_ids)
        for segment in trajectory.segments
        if segment.role == "model"
    )
