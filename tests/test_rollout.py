"""The agent loop: ids, limits, faults, seeds; with the scripted engine and real tools or none."""

from __future__ import annotations

import asyncio
import json
import random

import pytest

from tircli import protocols
from tircli.engines import Completion
from tircli.engines.scripted import ScriptedEngine
from tircli.protocols import Call
from tircli.records import InputError, Segment, ToolUnavailable, Trajectory
from tircli.rollout import AgentLoop, Budget, RunOver, Settings, expand, run
from tircli.tools import ToolResult
from tircli.turns import Turn


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


CONFIDENT = {"logprobs": -0.2, "top_logprobs": -0.1}


def test_a_call_knows_its_tokens_and_how_sure_the_model_was(tmp_path):
    # Ids are bytes: 16 of "<think>t</think>", then 20 of the call. exp(-0.1), exp(-0.2).
    done = finish(loop_for(tmp_path, [{"text": CALL, **CONFIDENT}, END]))
    (use,) = done.uses
    assert use.call_tokens == [16, len(CALL)]
    assert use.confidence == {
        "max": pytest.approx(0.904837, abs=1e-6),
        "sampled": pytest.approx(0.818731, abs=1e-6),
        "tokens": len("<python>1+1</python>"),
    }


def test_confidence_is_the_mean_over_the_block_alone(tmp_path):
    block, thought = "<python>1+1</python>", "<think>t</think>"
    best = [[-9.0]] * len(thought) + [[-0.3], [-0.1]] * (len(block) // 2)
    reply = {"token_ids": list(CALL.encode()), "stop": "</python>"}
    reply |= {"logprobs": [-1.0] * len(CALL), "top_logprobs": best}
    done = finish(loop_for(tmp_path, [reply, END]))
    assert done.uses[0].confidence["max"] == pytest.approx(0.818731, abs=1e-6)  # exp(-0.2)


def test_without_log_probabilities_there_is_no_confidence(tmp_path):
    done = finish(loop_for(tmp_path, [CALL, END]))
    assert done.uses[0].confidence is None and done.uses[0].call_tokens is not None


def test_no_tokens_leaves_no_span_behind(tmp_path):
    done = finish(loop_for(tmp_path, [CALL, END], settings=Settings(tokens=False)))
    assert done.uses[0].call_tokens is None
    assert all(segment.token_ids is None for segment in done.segments)


def test_a_dropped_stop_string_without_a_call_does_not_come_back_for_ever(tmp_path):
    replies = ["no code\n```output", "\\boxed{2}"]
    loop = loop_for(tmp_path, replies, protocol="torl")
    parts = iter(replies)

    async def turn_parts(ids, sampling):
        text = next(parts)
        stop = "```output" if text.endswith("```output") else None
        return Completion(list(text.encode()), text, "stop" if stop else "eos", stop)

    loop.engine.generate = turn_parts
    done = finish(loop)
    assert (done.stop, done.model_text) == ("answer", "no code\n```output\\boxed{2}")


def test_all_calls_of_a_chat_turn_are_answered_before_the_next_turn_opens(tmp_path):
    call = '<tool_call>{"name":"search","arguments":{"query":"%s"}}</tool_call>'
    replies = [call % "moon" + call % "tide", "\\boxed{2}"]
    done = finish(loop_for(tmp_path, replies, protocol="tools"))
    assert [use.input for use in done.uses] == ["moon", "tide"]
    assert [s.text for s in done.segments[2:4]] == [
        "\n[tool]\nok\n",
        "\n[tool]\nok\n[assistant]\n",
    ]


def test_calls_of_one_turn_count_against_the_limit_one_by_one(tmp_path):
    call = '<tool_call>{"name":"search","arguments":{"query":"moon"}}</tool_call>'
    settings = Settings(max_calls=2)
    done = finish(loop_for(tmp_path, [call * 3, "\\boxed{2}"], protocol="tools", settings=settings))
    assert [use.status for use in done.uses] == ["ok", "ok", "limit"]


@pytest.mark.parametrize(
    ("settings", "stop", "calls"),
    [
        (Settings(max_turns=2, final_turn=False), "turns", 2),
        (Settings(max_calls=1, final_turn=False), "calls", 1),
        (Settings(max_calls=0, final_turn=False), "calls", 0),
        (Settings(max_tokens=len(CALL) + 5), "length", 1),
    ],
)
def test_what_ends_a_trajectory_is_recorded(tmp_path, settings, stop, calls):
    done = finish(loop_for(tmp_path, [CALL] * 9, settings=settings))
    assert (done.stop, done.calls) == (stop, calls)


def test_a_trajectory_out_of_seconds_keeps_whole_turns(tmp_path):
    replies = [CALL, {"text": END, "seconds": 30}]
    done = finish(loop_for(tmp_path, replies, settings=Settings(max_seconds=0.1)))
    assert done.stop == "seconds"
    assert [s.role for s in done.segments] == ["prompt", "model", "tool"]


async def all_of(loop, count=8, concurrency=1):
    items = expand([Trajectory("q", "q", "?")], count)
    return [done async for done in run(items, loop, concurrency)]


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        (Budget(turns=3), "the run's 3 turns"),
        (Budget(calls=2), "the run's 2 calls"),
        (Budget(tokens=50), "the run's 50 tokens"),
    ],
)
def test_a_budget_of_the_run_ends_it(tmp_path, budget, says):
    loop = loop_for(tmp_path, [CALL, END])
    loop.budget = budget
    with pytest.raises(RunOver, match=says):
        asyncio.run(all_of(loop))
    assert loop.counts.turns <= 4


def test_the_seconds_of_the_run_end_it(tmp_path):
    loop = loop_for(tmp_path, [{"text": END, "seconds": 30}])
    loop.budget = Budget(seconds=0.1)
    with pytest.raises(RunOver, match=r"0\.1 seconds"):
        asyncio.run(all_of(loop))


def test_too_many_errors_end_the_run_and_name_the_last(tmp_path):
    loop = loop_for(tmp_path, [{"error": "server said 500"}])
    loop.budget = Budget(errors=2)
    with pytest.raises(RunOver, match="more than 2 errors, the latest: q#2: server said 500"):
        asyncio.run(all_of(loop))


def test_a_trajectory_that_fills_the_context_ends_by_length(tmp_path):
    loop = loop_for(tmp_path, [CALL, END])
    prompt = finish(loop).segments[0]
    loop.engine.context = len(prompt.token_ids) + len(CALL) + 10
    done = finish(loop)
    assert (done.stop, done.error, done.calls) == ("length", None, 1)


def test_a_prompt_longer_than_the_context_is_the_users_to_fix(tmp_path):
    loop = loop_for(tmp_path, [END])
    loop.engine.context = 10
    with pytest.raises(InputError, match=r"question q: its prompt has \d+ tokens.* 10; shorten"):
        finish(loop)
    loop.long_prompts = "skip"
    assert finish(loop).stop == "error"


def test_an_edited_trajectory_is_encoded_again_from_the_edit_on(tmp_path):
    loop = loop_for(tmp_path, [CALL, END])
    whole = finish(loop)
    edited = whole.segments[:3]
    edited[1] = Segment("model", "<think>edited</think><python>2</python>")
    edited[2] = Segment("tool", edited[2].text, None, None, edited[2].tool)
    done = asyncio.run(loop.finish(Trajectory("q#0", "q", "1+1?", segments=edited)))
    assert done.segments[1].token_ids == list(edited[1].text.encode())
    assert done.token_ids[: len(whole.segments[0].token_ids)] == whole.segments[0].token_ids


def test_a_foreign_prompt_without_ids_is_refused(tmp_path):
    begun = Trajectory("q#0", "q", "?", segments=[Segment("prompt", "another prompt")])
    with pytest.raises(InputError, match="its prompt has no token_ids"):
        asyncio.run(loop_for(tmp_path, [END]).finish(begun))


def test_spans_found_by_guesses_are_those_of_a_plain_search():
    # Token i decodes to `widths[i]` characters; widths of 0 are half characters or special ids.
    rng = random.Random(0)
    for _ in range(300):
        widths = [rng.choice((0, 1, 1, 2, 9)) for _ in range(rng.randint(0, 30))]
        turn = Turn(lambda ids: "".join("x" * width for width in ids), ids=True)
        turn.append(Completion(widths, "x" * sum(widths), "eos"))
        for want in range(1, sum(widths) + 1):
            plain = next(n for n in range(len(widths) + 1) if sum(widths[:n]) >= want)
            assert turn.span(Call("python", "", want - 1, want)) == [plain - 1, plain]


def test_a_program_that_prints_the_final_answer_ends_a_simpletir_trajectory(tmp_path):
    replies = ["```python\nfinal_answer(6 * 7)\n```\n", "It is \\boxed{41}."]
    tool = Recorded(ToolResult("\\boxed{42}"))
    done = finish(loop_for(tmp_path, replies, protocol="simpletir", tool=tool))
    assert (done.stop, done.prediction, done.calls) == ("answer", "42", 1)


def test_a_final_answer_that_failed_or_a_box_that_is_merely_printed_is_none(tmp_path):
    replies = ["```python\nfinal_answer(1 / 0)\n```\n", "```python\nprint(1)\n```\n", "\\boxed{5}"]
    tool = Recorded(ToolResult("\\boxed{?}", "error"), ToolResult("\\boxed{42}"))
    done = finish(loop_for(tmp_path, replies, protocol="simpletir", tool=tool))
    assert (done.stop, done.prediction, done.calls) == ("answer", "5", 2)
