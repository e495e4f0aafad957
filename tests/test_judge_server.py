"""A model as judge behind a server that fails on purpose: no fault ever becomes a verdict."""

from __future__ import annotations

import json
import random
import re
import sys
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tircli.cli import app

UNCLEAR = [
    "",
    "I refuse to grade this.",
    "It might be correct.",
    '{"correct": nu',
    "<think>Correct.",
]
WAYS = ['{{"correct": {0}}}', '```json\n{{"correct": {0}}}\n```', "Let me see.\n{{'correct': {0}}}"]


class Judge(ThreadingHTTPServer):
    """Grades by comparing the texts between the tags; `faults` is the share of bad replies."""

    daemon_threads = True

    def __init__(self, faults: float) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults, self.random, self.told = faults, random.Random(7), Counter()
        self.lock = threading.Lock()
        self.url = f"http://127.0.0.1:{self.server_port}/v1"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, request, client_address) -> None:
        """A client that gave up, or a connection that was reset on purpose, is no news."""
        if not isinstance(sys.exc_info()[1], (OSError, ValueError)):
            super().handle_error(request, client_address)

    def reply(self, request: dict) -> tuple[str, str]:
        """What kind of reply to give, and the text of it."""
        user = request["messages"][-1]["content"]
        tags = ("reference", "prediction")
        gold, said = (re.search(rf"<{tag}>\n(.*?)\n</{tag}>", user, re.S)[1] for tag in tags)
        with self.lock:
            fault = self.random.random() < self.faults
            kinds = ["500", "429", "reset", "hang", "torn", "no choices", "unclear", "unclear"]
            kind = self.random.choice(kinds) if fault else "good"
            text = self.random.choice(WAYS).format(str(gold == said).lower())
            self.told[kind] += 1
            return kind, self.random.choice(UNCLEAR) if kind == "unclear" else text


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        self.send(200, {"data": [{"id": "judge"}]})

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if "messages" not in request:  # The probe at the start.
            return self.send(404, {"error": {"message": "chat only"}})
        kind, text = self.server.reply(request)
        message = {"role": "assistant", "content": text}
        body = {
            "choices": [{"message": message, "finish_reason": "stop"}],
            "usage": {"completion_tokens": 5},
        }
        if kind in ("500", "429"):
            self.send(int(kind), {"error": {"message": "no"}})
        elif kind == "reset":
            self.connection.close()
        elif kind == "hang":
            time.sleep(3)
            self.close_connection = True
        elif kind == "torn":
            self.send(200, json.dumps(body).encode()[:-15])
        else:
            self.send(200, body | {"choices": []} if kind == "no choices" else body)

    def send(self, status: int, body: object) -> None:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


@pytest.fixture
def judge(tmp_path, capsys):
    """`tir judge --judge llm` of 60 records against a server with a share of faults."""
    servers = []

    def run(faults: float, *options):
        servers.append(Judge(faults))
        lines = []
        for i in range(60):
            said = "heron" if i % 3 else "egret"
            names = {"id": f"q{i}", "question": "Which bird?", "answer": "heron", "task": "qa"}
            lines.append(json.dumps(names | {"prediction": said}))
        (tmp_path / "in.jsonl").write_text("\n".join(lines) + "\n")
        command = ["judge", str(tmp_path / "in.jsonl"), "-o", str(tmp_path / "out.jsonl"), "-q"]
        command += ["--judge", "llm", "--judge-engine", "openai", "--judge-model", "judge"]
        command += ["--judge-url", servers[-1].url, "--report", str(tmp_path / "report.json")]
        for option in ("pause_seconds=0.01", "first_byte_seconds=0.5", *options[:1]):
            command += ["--judge-option", option]
        code = app([*command, *options[1:]], standalone_mode=False)
        records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
        report = json.loads((tmp_path / "report.json").read_text())
        return code, records, report, servers[-1].told, capsys.readouterr().err

    yield run
    for server in servers:
        server.shutdown()
        server.server_close()


def check(records) -> Counter:
    """Every verdict there is must be right; how many there are of each kind."""
    counts = Counter()
    for record in records:
        right = record["prediction"] == "heron"
        assert record["correct"] in (None, float(right)), record["judge"]
        counts[record["correct"]] += 1
    return counts


def test_with_faults_in_a_third_of_the_replies_all_are_graded_rightly(judge):
    code, records, report, told, said = judge(0.33, "tries=9", "--tries", "6")
    assert check(records) == {1.0: 40, 0.0: 20} and (code, said) == (0, "")
    assert (report["graded"], report["coverage"]) == (60, 1.0)
    assert set(told) == {"500", "429", "reset", "hang", "torn", "no choices", "unclear", "good"}
    assert report["llm"]["asked_again"] == told["unclear"]


def test_what_fails_for_good_is_null_and_counted_never_0(judge):
    code, records, report, _, said = judge(0.6, "tries=1", "--tries", "1")
    counts = check(records)
    assert code == 3 and counts[None] > 10 and counts[0.0] < 20
    assert report["ungraded"] == counts[None] == report["llm"]["failed"] + report["llm"]["unparsed"]
    assert f"{counts[None]} ungraded" in said


def test_a_resumed_run_asks_only_for_what_failed(judge):
    _, records, first, _, _ = judge(0.6, "tries=1", "--tries", "1")
    failed = first["llm"]["failed"]
    assert failed > 0
    _, records, report, told, _ = judge(0.0, "tries=1", "--tries", "1", "--resume")
    check(records)
    # Unclear replies were verdicts of a sort: they stay null.
    assert (sum(told.values()), report["ungraded"]) == (failed, first["llm"]["unparsed"])
    assert [r["id"] for r in records] == [f"q{i}" for i in range(60)]
