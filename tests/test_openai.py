"""The `openai` engine against real servers on loopback, which fail on purpose."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tircli import protocols
from tircli.engines import Sampling, ask
from tircli.engines.openai import OpenAIEngine
from tircli.records import EngineError, InputError, Segment, Trajectory, TurnError
from tircli.rollout import AgentLoop, Settings, expand, run
from tircli.tools import ToolResult

SERVER = Path(__file__).with_name("openai_server.py")
TIR = [sys.executable, "-c", "from tircli.cli import main; main()"]
QUICK = {"pause_seconds": 0.01, "first_byte_seconds": 0.3, "total_seconds": 1.0}
QUICK |= {"health_seconds": 0.2, "down_seconds": 2.0, "connect_seconds": 1.0}


@contextmanager
def served(*options: object):
    """The URL and the process of a test server."""
    command = [sys.executable, str(SERVER), *map(str, options)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@contextmanager
def saying(*replies: tuple[int, dict, object]):
    """The URL of a server that gives one reply after the other, and the requests it got."""
    asked: list[dict] = []
    left = list(replies)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            self.reply(200, {}, {"data": [{"id": "m"}]})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if body["max_tokens"] == 2:  # What the engine asks at its start.
                return self.reply(404, {}, {})
            asked.append(body | {"path": self.path, "key": self.headers["Authorization"]})
            self.reply(*(left.pop(0) if len(left) > 1 else left[0]))

        def reply(self, status, headers, body):
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1", asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def text_reply(text="\\boxed{2}", **more):
    choice = {"text": text, "finish_reason": "stop"} | more
    return (200, {}, {"choices": [choice], "usage": {"completion_tokens": 5}})


def engine_at(*urls: str, **options) -> OpenAIEngine:
    return OpenAIEngine(options.pop("model", "m"), base_urls=urls, **(QUICK | options))


def turn(engine: OpenAIEngine, sampling: Sampling | None = None, prompt: str = "hello"):
    async def once():
        try:
            return await engine.generate_text(
                [Segment("prompt", prompt)], sampling or Sampling(50, key="q#0")
            )
        finally:
            await engine.aclose()

    return asyncio.run(once())


class Ran:
    """A python tool whose output is 1."""

    def __init__(self):
        self.seen = []

    async def run(self, source, session=None):
        self.seen.append(source)
        return ToolResult("1")

    async def aclose(self):
        pass


def finished(engine, protocol="torl", count=1, concurrency=8, **settings):
    tool = Ran()
    loop = AgentLoop(
        engine, protocols.load(protocol), {"python": tool}, Settings(**settings), {"by": "test"}
    )

    async def all_of_them():
        items = expand([Trajectory("q", "q", "What is 1+1?")], count)
        try:
            return [done async for done in run(items, loop, concurrency)]
        finally:
            await engine.aclose()

    return sorted(asyncio.run(all_of_them()), key=lambda t: t.id), tool


def test_a_thousand_trajectories_through_a_faulty_server_are_whole_or_say_why(tmp_path):
    questions = tmp_path / "q.jsonl"
    lines = (json.dumps({"id": f"q{i}", "question": f"{i}?"}) for i in range(1000))
    questions.write_text("\n".join(lines))
    base = ["rollout", questions, "--engine", "openai", "-m", "tiny", "--protocol", "torl"]
    base += ["--tools", "", "-q", "-o", tmp_path / "o.jsonl", "--concurrency", 256]
    for key, value in (QUICK | {"first_byte_seconds": 1.5, "total_seconds": 3}).items():
        base += ["--engine-option", f"{key}={value}"]

    def rollout(url, *more):
        command = [*TIR, *map(str, [*base, "--base-url", url, *more])]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        records = [json.loads(line) for line in (tmp_path / "o.jsonl").read_text().splitlines()]
        return done, records

    with served("--faults", 0.05) as (url, _):
        done, records = rollout(url)
    stops = Counter(record["stop"] for record in records)
    assert sorted(r["id"] for r in records) == sorted(f"q{i}#0" for i in range(1000))
    assert set(stops) == {"answer", "error"} and stops["answer"] > 500, done.stderr
    assert done.returncode == 3
    causes = [r["error"]["message"] for r in records if r["stop"] == "error"]
    assert all("tries failed, the last at" in cause for cause in causes)
    good = {r["id"]: r for r in records if r["stop"] == "answer"}
    with served() as (url, _):
        done, records = rollout(url, "--resume")
    assert done.returncode == 0 and len(records) == 1000
    assert all(r["stop"] == "answer" for r in records)
    assert all(good.get(r["id"], r) == r for r in records)


def test_seeds_do_not_depend_on_servers_or_concurrency():
    with served() as (one, _), served() as (two, _):
        alone = finished(engine_at(one, model="tiny"), count=12, concurrency=1)[0]
        both = finished(engine_at(two, one, model="tiny"), count=12, concurrency=12)[0]
    assert [t.prediction for t in alone] == [t.prediction for t in both]
    assert len({t.prediction for t in alone}) == 12


def test_servers_share_the_work_and_a_trajectory_stays_where_it_is(tmp_path):
    logs = [tmp_path / "a", tmp_path / "b"]
    with (
        served("--log", logs[0], "--seconds", 0.02) as (one, _),
        served("--log", logs[1], "--seconds", 0.02) as (two, _),
    ):
        finished(engine_at(one, two, model="tiny"), count=40, concurrency=8)
    prompts = [
        [json.loads(line)["prompt"] for line in log.read_text().splitlines()] for log in logs
    ]
    counts = [len(part) for part in prompts]
    assert sum(counts) == 80 and abs(counts[0] - counts[1]) <= 16
    assert all(2 * sum(p.endswith("```\n") for p in part) == len(part) for part in prompts)


def test_a_server_that_dies_takes_nothing_with_it():
    with served("--seconds", 0.05) as (one, dying), served("--seconds", 0.05) as (two, _):
        timer = threading.Timer(0.5, dying.kill)
        timer.start()
        done, _ = finished(engine_at(one, two, model="tiny"), count=60, concurrency=8)
        timer.join()
    assert [t.stop for t in done] == ["answer"] * 60


def test_a_server_that_is_down_at_the_start_is_used_once_it_answers(tmp_path):
    with served() as (url, _):
        port = url.split(":")[2].split("/")[0]
    with served("--seconds", 0.05) as (two, _):
        engine = engine_at(url, two, model="tiny", pause_seconds=0.1)
        timer = threading.Event()
        late: list[subprocess.Popen] = []

        def start():
            timer.wait(0.3)
            command = [sys.executable, str(SERVER), "--port", port, "--log", str(tmp_path / "late")]
            late.append(subprocess.Popen(command, stdout=subprocess.DEVNULL))

        thread = threading.Thread(target=start)
        thread.start()
        try:
            done, _ = finished(engine, count=300, concurrency=8)
        finally:
            thread.join()
            late[0].kill()
            late[0].wait()
    assert all(t.stop == "answer" for t in done) and (tmp_path / "late").exists()


def test_without_any_server_for_long_the_run_ends():
    with served("--seconds", 0.05) as (url, dying):
        engine = engine_at(url, model="tiny", down_seconds=0.3)
        threading.Timer(0.3, dying.kill).start()
        with pytest.raises(EngineError, match=r"no server answers.*go on with --resume"):
            finished(engine, count=500)


def test_a_hanging_server_is_noticed_by_its_health():
    with served("--seconds", 0.02) as (one, hanging), served("--seconds", 0.02) as (two, _):
        slow = {"first_byte_seconds": 30.0, "total_seconds": 60.0, "connect_seconds": 0.2}
        engine = engine_at(one, two, model="tiny", **slow)
        timer = threading.Timer(0.3, hanging.send_signal, [19])  # SIGSTOP
        timer.start()
        done, _ = finished(engine, count=60, concurrency=8)
        timer.join()
    assert all(t.stop == "answer" for t in done)


def test_retry_after_is_kept():
    with saying((429, {"Retry-After": "1"}, {}), text_reply()) as (url, asked):
        engine = engine_at(url)
        start = time.monotonic()
        assert turn(engine).text == "\\boxed{2}"
        assert time.monotonic() - start >= 1.0 and len(asked) == 2


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ((500, {}, {"error": {"message": "boom"}}), "500 boom"),
        ((200, {}, b'{"choi'), "no JSON"),
        ((200, {}, b'{"choices": "\xff"}'), "no JSON"),
        ((200, {}, {"choices": []}), "no choices"),
        ((200, {}, {"choices": [3], "usage": {"completion_tokens": 1}}), "no object"),
        ((200, {}, {"choices": [{"text": "x", "finish_reason": "stop"}]}), "does not count"),
        (text_reply(finish_reason="abort"), "abort"),
        (text_reply(text=None), "no text"),
    ],
)
def test_a_bad_reply_is_asked_again_and_named_when_it_stays(reply, says):
    with saying(reply, text_reply()) as (url, asked):
        assert turn(engine_at(url)).text == "\\boxed{2}" and len(asked) == 2
    with saying(reply) as (url, asked), pytest.raises(TurnError, match=says):
        turn(engine_at(url, tries=3))
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("status", "error"),
    [(400, TurnError), (422, TurnError), (401, EngineError), (404, EngineError)],
)
def test_what_no_retry_heals_is_not_retried(status, error):
    with saying((status, {}, {"error": {"message": "no\nway"}})) as (url, asked):
        with pytest.raises(error, match="no way"):
            turn(engine_at(url))
        assert len(asked) == 1


def test_a_full_context_ends_a_trajectory_by_length():
    refusal = (400, {}, {"error": {"message": "longer than the model's maximum context length"}})
    code = "```python\nprint(1)\n```\n"
    with saying(text_reply(code), refusal) as (url, _):
        (done,), _ = finished(engine_at(url))
    assert (done.stop, done.calls, done.error) == ("length", 1, None)


@pytest.mark.parametrize(
    "told", [{"stop_reason": "</search>"}, {"matched_stop": "</search>"}, {}], ids=str
)
def test_a_hidden_stop_string_is_restored_once(told):
    # A server may say which stop string it hid, or nothing at all.
    first = text_reply("<think>look it up</think><search>capital of Freedonia", **told)
    with saying(first, text_reply("<answer>Glorp</answer>", stop_reason=None)) as (url, asked):
        engine = engine_at(url)
        tool = Ran()
        form = protocols.load("search-r1")
        raw = protocols.Protocol(
            form.name, {"kind": "raw", "user": "{{question}}"}, form.calls, form.stops,
            wrapper=form.wrapper, answer=form.answer, limits=form.limits,
        )  # fmt: skip
        loop = AgentLoop(engine, raw, {"search": tool}, Settings(), {})

        async def one():
            try:
                return await loop.finish(Trajectory("q#0", "q", "Capital?"))
            finally:
                await engine.aclose()

        done = asyncio.run(one())
    assert tool.seen == ["capital of Freedonia"] and done.prediction == "Glorp"
    assert done.segments[1].text.endswith("Freedonia</search>")
    assert done.segments[1].token_ids is None and done.segments[1].extra == {"n_tokens": 5}
    assert asked[1]["prompt"].count("</search>") == 1


def test_text_without_ids_is_recorded_as_such(tmp_path):
    question = tmp_path / "q.jsonl"
    question.write_text('{"id":"a","question":"?"}\n')
    with served("--strict") as (url, _):
        command = [*TIR, "rollout", str(question), "--engine", "openai", "-m", "tiny", "-q"]
        command += ["--base-url", url, "--protocol", "torl", "--tools", ""]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    record = json.loads(done.stdout)
    assert record["made"]["ids"] is False and done.returncode == 0
    assert not any("token_ids" in segment for segment in record["segments"])
    assert "records without token ids" in done.stderr


def test_log_probabilities_of_text_give_a_confidence():
    code = "```python\nprint(1)\n```\n"
    tokens = ["```", "python\n", "print(1)", "\n```", "\n"]
    given = {"tokens": tokens, "token_logprobs": [-0.2] * 5, "top_logprobs": [{"a": -0.1}] * 5}
    with saying(text_reply(code, logprobs=given), text_reply()) as (url, _):
        (done,), _ = finished(engine_at(url))
    assert done.uses[0].confidence == {
        "max": pytest.approx(0.904837, abs=1e-6),
        "sampled": pytest.approx(0.818731, abs=1e-6),
        "tokens": 4,
    }


def chat_reply(finish="stop", **message):
    choice = {"message": {"role": "assistant", "content": None} | message, "finish_reason": finish}
    return (200, {}, {"choices": [choice], "usage": {"completion_tokens": 5}})


def test_protocol_tools_goes_through_chat_completions():
    with served() as (url, _):
        (done,), tool = finished(engine_at(url, model="tiny"), "tools")
    assert tool.seen == ["print(1)"] and done.stop == "answer"
    assert done.segments[1].text.startswith("<think>\nI need python.\n</think>")
    assert [segment.role for segment in done.segments] == ["prompt", "model", "tool", "model"]


def test_calls_and_results_go_back_as_messages():
    def call(identity, arguments):
        function = {"name": "code_interpreter", "arguments": arguments}
        return {"id": identity, "type": "function", "function": function}

    calls = [call("c1", '{"code": "print(1)"}'), call("c2", '{"code": "prin')]
    replies = [chat_reply("tool_calls", tool_calls=calls), chat_reply(content="\\boxed{1}")]
    with saying(*replies) as (url, asked):
        (done,), tool = finished(engine_at(url), "tools")
    assert tool.seen == ["print(1)"] and [u.status for u in done.uses] == ["ok", "refused"]
    first, second = asked
    assert [f["function"]["name"] for f in first["tools"]] == ["code_interpreter"]
    assert "<tool_call>" not in first["messages"][0]["content"]
    roles = [message["role"] for message in second["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "tool"]
    assert [m["tool_call_id"] for m in second["messages"][3:]] == ["c1", "c2"]
    kept = second["messages"][2]["tool_calls"]
    assert json.loads(kept[1]["function"]["arguments"]) == {"unparsed": '{"code": "prin'}


def test_the_last_turn_of_a_chat_allows_no_call():
    with saying(chat_reply(content="\\boxed{1}")) as (url, asked):
        finished(engine_at(url), "tools", max_calls=0)
    assert asked[0]["tool_choice"] == "none"


def test_a_chat_that_goes_on_inside_a_turn_needs_the_template():
    says = "tokenizer=FOLDER or choose --protocol tools"
    with saying(text_reply()) as (url, _), pytest.raises(InputError, match=says):
        finished(engine_at(url), "et")


def test_one_prompt_is_asked_whatever_the_engine_knows():
    with saying(chat_reply(content="Correct")) as (url, asked):
        engine = engine_at(url)

        async def once():
            try:
                return await ask(engine, [{"role": "user", "content": "right?"}], Sampling(9))
            finally:
                await engine.aclose()

        assert asyncio.run(once()).text == "Correct"
    assert asked[0]["messages"] == [{"role": "user", "content": "right?"}]


def test_the_key_comes_from_the_environment_and_is_said_nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "sesame-123")
    refusal = (400, {}, {"error": {"message": "your key sesame-123 may not do this"}})
    with saying(refusal) as (url, asked):
        (done,), _ = finished(engine_at(url, api_key_env="MY_KEY"))
    assert asked[0]["key"] == "Bearer sesame-123"
    assert "sesame" not in done.error["message"] and "***" in done.error["message"]
    with served("--key", "another") as (url, _), pytest.raises(InputError, match="key") as caught:
        engine_at(url, model="tiny", api_key_env="MY_KEY")
    assert "sesame" not in str(caught.value)
    with pytest.raises(InputError, match="NO_SUCH is not set"):
        engine_at("http://127.0.0.1:9/v1", api_key_env="NO_SUCH")


@pytest.mark.parametrize(
    ("urls", "model", "says"),
    [
        ([], "m", "needs one"),
        (["localhost:1/v1"], "m", "begin it with http://"),
        (["http://127.0.0.1:9/v1"], "m", "no server answers"),
        (["http://me:word@127.0.0.1:9/v1"] * 2, "m", "http://127.0.0.1:9/v1 stands twice"),
    ],
)
def test_bad_servers_are_the_users_to_fix(urls, model, says):
    with pytest.raises(InputError, match=says):
        engine_at(*urls, model=model)


def test_a_model_that_is_not_served_lists_those_that_are():
    with served() as (url, _), pytest.raises(InputError, match="has tiny; choose"):
        engine_at(url, model="huge")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    transformers = pytest.importorskip("transformers", reason="ids need tircli[local]")
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    path = tmp_path_factory.mktemp("tokenizer")
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    raw = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    raw.add_special_tokens(["<eos>"])
    transformers.PreTrainedTokenizerFast(tokenizer_object=raw, eos_token="<eos>").save_pretrained(
        path
    )
    (path / "config.json").write_text('{"model_type": "llama"}')
    return path


def test_ids_go_out_and_come_back(folder, tmp_path):
    log = tmp_path / "log"
    with served("--tokenizer", folder, "--log", log) as (url, _):
        engine = engine_at(url, model="tiny", tokenizer=str(folder))
        (done,), _ = finished(engine)
    assert engine.ids and engine.context == 4096
    model = done.segments[1]
    assert engine.decode(model.token_ids) == model.text == "Compute.\n```python\nprint(1)\n```\n"
    assert model.logprobs == [-0.25] * len(model.token_ids)
    assert done.uses[0].call_tokens == [9, 31]
    assert done.uses[0].confidence["max"] == pytest.approx(0.778801, abs=1e-6)  # exp(-0.25)
    second = json.loads(log.read_text().splitlines()[1])["prompt"]
    assert second == [i for segment in done.segments[:3] for i in segment.token_ids]


def test_ids_that_contradict_the_count_are_asked_again(folder):
    with served("--tokenizer", folder, "--faults", 0.05) as (url, _):
        engine = engine_at(url, model="tiny", tokenizer=str(folder), tries=20)
        done, _ = finished(engine, count=60)
    assert all(t.stop == "answer" for t in done)
    assert all(t.segments[3].text == engine.decode(t.segments[3].token_ids) for t in done)


def test_ids_asked_for_but_not_given_are_refused(folder):
    with served() as (url, _), pytest.raises(InputError, match="returns no token ids"):
        engine_at(url, model="tiny", tokenizer=str(folder), ids=True)


def test_with_the_template_text_goes_on_inside_a_chat_turn(folder):
    template = "{% for m in messages %}[{{ m['role'] }}]{{ m['content'] }}{% endfor %}[assistant]"
    (folder / "chat_template.jinja").write_text(template)
    answer = "<answer>\\boxed{2}</answer>"
    with saying(text_reply(answer, stop_reason=None)) as (url, asked):
        (done,), _ = finished(engine_at(url, tokenizer=str(folder)), "et")
    assert done.prediction == "2" and asked[0]["prompt"].endswith("What is 1+1?[assistant]")


def test_a_resume_does_not_mix_records_with_and_without_ids(folder, tmp_path):
    question, target = tmp_path / "q.jsonl", tmp_path / "o.jsonl"
    question.write_text('{"id":"a","question":"?"}\n{"id":"b","question":"?"}\n')
    command = [*TIR, "rollout", str(question), "--engine", "openai", "-m", "tiny", "-q"]
    command += ["--protocol", "torl", "--tools", "", "-o", str(target)]
    command += ["--engine-option", f"tokenizer={folder}"]
    with served("--tokenizer", folder) as (url, _):
        more = ["--base-url", url, "--run-max-turns", "2", "--concurrency", "1"]
        assert subprocess.run([*command, *more], capture_output=True).returncode == 3
    with served() as (url, _):
        more = ["--base-url", url, "--resume"]
        done = subprocess.run([*command, *more], capture_output=True, text=True)
    assert done.returncode == 2 and "was made with token ids and the engine now gives none" in (
        done.stderr
    )
