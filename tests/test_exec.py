"""`tir exec`: programs in, one record each out."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

FIELDS = (
    *("id", "status", "output", "stdout", "stderr", "value", "exception", "seconds"),
    *("cpu_seconds", "queued", "max_rss_mb", "truncated", "layers"),
)


def tir(*args: str, stdin: str = "") -> tuple[int, list[dict[str, Any]], str]:
    """Exit code, records and stderr of `tir exec`."""
    command = [sys.executable, "-m", "tircli.cli", "exec", *args]
    done = subprocess.run(command, input=stdin, capture_output=True, text=True, encoding="utf-8")
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_one_program_is_one_record_with_all_fields() -> None:
    code, (record,), _ = tir("-c", "import sys\nprint(6 * 7)\nprint('e', file=sys.stderr)\n'v'")
    assert (code, tuple(record)) == (0, FIELDS)
    shown = {name: record[name] for name in FIELDS[:7]}
    assert shown == {
        "id": "-c",
        "status": "ok",
        "output": "42\n'v'",
        "stdout": "42\n",
        "stderr": "e\n",
        "value": "'v'",
        "exception": None,
    }


def test_a_file_and_stdin_hold_a_program(tmp_path: Path) -> None:
    path = tmp_path / "p.py"
    path.write_text("1 / 0")
    code, (record,), _ = tir(str(path))
    assert (code, record["status"]) == (0, "error")
    assert record["output"] == "ZeroDivisionError: division by zero"
    assert tir("-", stdin="print(1)")[1][0]["stdout"] == "1\n"


def test_records_come_in_the_order_of_the_lines(tmp_path: Path) -> None:
    path = tmp_path / "p.jsonl"
    rows = [
        {"id": f"r{n}", "code": f"import time\ntime.sleep({1 / (n + 2)})\n{n}"} for n in range(6)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rc, records, _ = tir(str(path), "--slots", "2")
    assert (rc, [r["id"] for r in records]) == (0, [f"r{n}" for n in range(6)])
    assert [r["value"] for r in records] == [str(n) for n in range(6)]


def test_limits_and_protocol_are_options() -> None:
    options = ("--cpu-seconds", "0.3", "--protocol", "simpletir")
    _, (record,), _ = tir("-c", "print('go')\nwhile True: pass", *options)
    assert record["status"] == "timeout"
    assert record["output"] == "go\nTimeoutError: the code ran longer than 0.3 seconds"


def test_lines_of_a_session_share_their_state(tmp_path: Path) -> None:
    codes = [("a", "x = 1"), ("b", "x = 2"), ("a", "x"), ("b", "x")]
    lines = "".join(json.dumps({"session": s, "code": c}) + "\n" for s, c in codes)
    _, records, _ = tir("--jsonl", "--slots", "1", stdin=lines)
    assert [record["output"] for record in records] == ["", "", "1", "2"]


BAD = ['{"id": 1}', '{"code": 1}', "[]", "{"]


@pytest.mark.parametrize("line", BAD)
def test_a_bad_line_is_named(line: str) -> None:
    code, records, said = tir("--jsonl", stdin=line)
    assert (code, records, said.startswith("stdin:1: ")) == (2, [], True)


def test_bad_lines_are_skipped_and_counted() -> None:
    lines = "\n".join([*BAD, '{"code": "7"}'])
    code, records, said = tir("--jsonl", "--on-error", "skip", stdin=lines)
    assert (code, [r["value"] for r in records]) == (3, ["7"])
    assert [line[:16] for line in said.splitlines()] == [f"skipped: stdin:{n}" for n in "1234"]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("-c", "1", "x.py"), "-c: gives the program"),
        (("nothing.py",), "nothing.py: no such file"),
        (("-c", "1", "--sandbox", "strong"), '--sandbox: "strong"; write preferred, weak or'),
        (("-c", "1", "--sandbox-url", "host"), '--sandbox-url: "host"; write http://'),
    ],
)
def test_what_is_wrong_is_one_line(args: tuple[str, ...], said: str) -> None:
    code, records, stderr = tir(*args)
    assert (code, records, stderr.count("\n")) == (2, [], 1)
    assert said in stderr


class Service(BaseHTTPRequestHandler):
    """Answers `POST /run_code` as SandboxFusion does, with this interpreter."""

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        run: dict[str, Any]
        if "fail" in body["code"]:
            run, status = {"status": "Error"}, "SandboxError"
        else:
            try:
                done = subprocess.run(
                    [sys.executable, "-c", body["code"]],
                    capture_output=True,
                    text=True,
                    timeout=body["run_timeout"],
                )
                run = {
                    "status": "Finished",
                    "execution_time": 0.5,
                    "stdout": done.stdout,
                    "return_code": done.returncode,
                    "stderr": done.stderr,
                }
            except subprocess.TimeoutExpired:
                run = {"status": "TimeLimitExceeded", "stdout": "part"}
            status = "Failed" if run.get("return_code") else "Success"
        data = json.dumps({"status": status, "message": "", "run_result": run}).encode()
        self.send_response(200 if self.path == "/run_code" else 404)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *args: object) -> None:
        """Nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_remote_sandbox_shows_the_same(url: str) -> None:
    codes = ["print('a')\n1 + 1", "print('a')\n1/0", "import sys\nprint('e', file=sys.stderr)", ""]
    lines = "".join(json.dumps({"code": code}) + "\n" for code in codes)
    own = tir("--jsonl", stdin=lines)[1]
    remote = tir("--jsonl", "--sandbox-url", url, stdin=lines)[1]
    same = ("status", "output", "stdout", "stderr", "value", "exception")
    assert [[r[name] for name in same] for r in remote] == [[r[name] for name in same] for r in own]
    assert remote[0]["layers"] == {"remote": url}
    assert remote[0]["seconds"] == 0.5


def test_a_remote_sandbox_that_is_late_or_fails(url: str) -> None:
    lines = '{"code": "import time\\ntime.sleep(60)"}\n{"code": "fail"}\n'
    code, (late, failed), _ = tir("--jsonl", "--sandbox-url", url, "--seconds", "1", stdin=lines)
    assert (late["status"], late["stdout"]) == ("timeout", "part")
    assert (failed["status"], code) == ("unavailable", 3)


def test_a_remote_sandbox_that_is_not_there_is_unavailable() -> None:
    code, (record,), _ = tir("-c", "1", "--sandbox-url", "http://127.0.0.1:9")
    assert (record["status"], code) == ("unavailable", 3)
