"""The agent loop: ids, limits, faults, seeds; with the scripted engine and real tools or none."""

from __future__ import annotations

import asyncio
import json

import pytest

from tircli import protocols
from tircli.engines import Completion
from tircli.engines.scripted import ScriptedEngine
from tircli.records import ToolUnavailable, Trajectory
from tircli.rollout import AgentLoop, Settings, expand, run
from tircli.tools import ToolResult


class Recorded:
    """A tool whose results are given."""

    def __init__(self, *results):
        self.results, self.seen = list(results), []

    async def run(self, source, session=None):
        self.seen.append(source)
        result = self.results.pop(0) if self.results else ToolResult("ok")
        if isinstance(result, Exception):
            raise result
        return result

    async def aclose(self):
        pass


def loop_for(tmp_path, replies, *, protocol="et", tool=None, settings=None):
    path = tmp_path / "replies.jsonl"
    path.write_text(json.dumps({"id": "*", "replies": replies}) + "\n")
    tool = tool or Recorded()
    return AgentLoop(
        ScriptedEngine(str(path)),
        protocols.load(protocol),
        {"python": tool, "search": tool},
        settings or Settings(),
        {"protocol": protocol},
    )


def finish(loop, question="1+1?"):
    return asyncio.run(loop.finish(Trajectory("q#0", "q", question)))


CALL = "<think>t</think><python>1+1</python>"
END = "<think>t</think><answer>\\boxed{2}</answer>"


def test_a_call_is_answered_and_the_answer_ends(tmp_path):
    done = finish(loop_for(tmp_path, [CALL, END], tool=Recorded(ToolResult("2"))))
    assert [s.role for s in done.segments] == ["prompt", "model", "tool", "model"]
    assert (done.stop, done.prediction, done.calls) == ("answer", "2", 1)
    assert done.segments[2].text == "<result>\n2\n</result>"


def test_text_after_the_call_is_dropped_with_its_tokens(tmp_path):
    done = finish(loop_for(tmp_path, [CALL + "<result>9</result>" + END, END]))
    assert done.segments[1].text == CALL
    assert bytes(done.segments[1].token_ids).decode() == CALL


def test_an_end_of_text_after_a_call_is_dropped_but_kept_in_a_chat_of_tools(tmp_path):
    replies = ["```python\nprint(2)\n```\n", "\\boxed{2}"]
    done = finish(loop_for(tmp_path, replies, protocol="simpletir"))
    assert done.segments[1].token_ids == list(replies[0].encode())
    replies[0] = '<tool_call>{"name":"search","arguments":{"query":"moon"}}</tool_call>'
    done = finish(loop_for(tmp_path, replies, protocol="tools"))
    assert done.segments[1].token_ids == [*replies[0].encode(), 256]


def test_a_stop_string_inside_a_string_literal_does_not_end_the_turn(tmp_path):
    tool = Recorded(ToolResult("x"))
    replies = ["<python>s = '</python>", {"text": "'\nprint(s)</python>"}, END]
    loop = loop_for(tmp_path, replies, tool=tool)
    generate, parts = loop.engine.generate, iter(replies)

    async def turn_parts(ids, sampling):
        reply = next(parts)
        text = reply if isinstance(reply, str) else reply["text"]
        return Completion(list(text.encode()), text, "stop", "</python>")

    loop.engine.generate = turn_parts
    done = finish(loop)
    loop.engine.generate = generate
    assert tool.seen == ["s = '</python>'\nprint(s)"]
    assert [s.role for s in done.segments] == ["prompt", "model", "tool", "model"]


def test_a_stop_string_that_the_server_hides_is_restored_once(tmp_path):
    tool = Recorded()
    hidden = {"text": "<search>moon", "finish": "stop", "stop": "</search>"}
    done = finish(loop_for(tmp_path, [hidden, END], tool=tool))
    assert done.segments[1].text == "<search>moon</search>" and tool.seen == ["moon"]


def test_the_record_holds_exactly_the_sampled_ids(tmp_path):
    # Bytes 195, 169 are "é"; the first turn ends in half of it, and 999 is no byte at all.
    odd = {"token_ids": [999, *CALL.encode(), 195], "logprobs": [-0.5] * (len(CALL) + 2)}
    loop = loop_for(tmp_path, [odd | {"finish": "eos"}, END])
    encode = loop.engine.encode

    def encode_observations_alone(text):
        assert text == "<result>\nok\n</result>", "model text was encoded"
        return encode(text)

    loop.engine.encode = encode_observations_alone
    done = finish(loop)
    ids = done.segments[1].token_ids
    assert ids == odd["token_ids"][: len(ids)] and len(ids) >= len(CALL) + 1
    assert len(done.segments[1].logprobs) == len(ids)
    assert done.segments[2].token_ids == list(b"<result>\nok\n</result>")


def test_at_a_tools_limit_a_call_is_attempted_not_executed(tmp_path):
    done = finish(loop_for(tmp_path, [CALL] * 7 + [END]))
    assert [use.status for use in done.uses] == ["ok"] * 6 + ["limit"]
    assert (done.calls, len(done.uses)) == (6, 7)


def test_after_the_last_turn_one_answer_turn_is_given(tmp_path):
    done = finish(loop_for(tmp_path, [CALL] * 14 + [END]))
    assert (done.stop, done.prediction) == ("answer", "2")
    cut = loop_for(tmp_path, [CALL] * 14, settings=Settings(final_turn=False))
    assert finish(cut).stop == "turns"


def test_a_turn_cut_inside_a_call_is_no_call(tmp_path):
    done = finish(loop_for(tmp_path, [CALL], settings=Settings(max_tokens=20)))
    assert (done.stop, done.calls, done.prediction, done.model_tokens) == ("length", 0, None, 20)


def test_a_turn_without_call_or_answer_ends(tmp_path):
    assert finish(loop_for(tmp_path, ["I do not know."])).stop == "eos"
    done = finish(loop_for(tmp_path, ["It is \\boxed{2}."], protocol="torl"))
    assert (done.stop, done.prediction) == ("answer", "2")


def test_torl_drops_its_stop_string_and_verltool_keeps_it(tmp_path):
    text = "```python\nprint(2)\n```\n```output\n9"
    torl = finish(loop_for(tmp_path, [text, "\\boxed{2}"], protocol="torl"))
    assert torl.segments[1].text == "```python\nprint(2)\n```\n"
    assert torl.segments[2].text == "```output\nok\n```\n"
    verl = finish(loop_for(tmp_path, [text, "\\boxed{2}"], protocol="verltool"))
    assert verl.segments[1].text == "```python\nprint(2)\n```\n```output"
    assert verl.segments[2].text == "\nok\n```\n"


def test_an_unavailable_tool_is_retried_then_recorded_as_an_error(tmp_path):
    down = [ToolUnavailable("server down")] * 3
    done = finish(loop_for(tmp_path, [CALL, END], tool=Recorded(*down)))
    assert (done.stop, done.error["type"], done.prediction) == ("error", "ToolUnavailable", None)
    healed = Recorded(ToolUnavailable("down"), ToolResult("2"))
    assert finish(loop_for(tmp_path, [CALL, END], tool=healed)).calls == 1


def test_a_failed_turn_is_data_and_the_run_goes_on(tmp_path):
    done = finish(loop_for(tmp_path, [{"error": "server said 500"}]))
    assert done.error == {"type": "TurnError", "message": "server said 500"}


def test_a_call_of_a_tool_that_is_not_there_is_refused(tmp_path):
    loop = loop_for(tmp_path, ["<search>moon</search>", END])
    del loop.tools["search"]
    assert finish(loop).uses[0].status == "refused"


def test_an_unfinished_trajectory_continues(tmp_path):
    loop = loop_for(tmp_path, [CALL, END])
    whole = finish(loop)
    begun = Trajectory("q#0", "q", "1+1?", segments=whole.segments[:3])
    assert asyncio.run(loop.finish(begun)).segments[3].text == END


def test_samples_have_seeds_of_their_own_whatever_the_concurrency(tmp_path):
    def seeds(concurrency):
        loop = loop_for(tmp_path, [CALL, END])
        seen, generate = {}, loop.engine.generate

        async def noted(ids, sampling):
            seen[sampling.key, sampling.turn] = sampling.seed
            return await generate(ids, sampling)

        loop.engine.generate = noted

        async def all_of_them():
            async for _ in run(expand([Trajectory("q", "q", "?")], 4), loop, concurrency):
                pass

        asyncio.run(all_of_them())
        return seen

    assert seeds(1) == seeds(4) and len(set(seeds(1).values())) == 8


def test_tools_of_some_overlap_generation_of_others(tmp_path):
    waiting = asyncio.Event()

    class Both(Recorded):
        async def run(self, source, session=None):
            # Ends only once the other trajectory has come this far as well.
            if waiting.is_set():
                self.met = True
            waiting.set()
            await asyncio.sleep(0.05)
            return await super().run(source, session)

    tool = Both()

    async def two():
        loop = loop_for(tmp_path, [CALL, END], tool=tool)
        return [t async for t in run(expand([Trajectory("q", "q", "?")], 2), loop, 2)]

    assert len(asyncio.run(two())) == 2 and tool.met


def test_a_missing_reply_says_which(tmp_path):
    with pytest.raises(Exception, match="no reply 2 for q#0"):
        finish(loop_for(tmp_path, [CALL]))
