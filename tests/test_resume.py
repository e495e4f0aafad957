"""What an interrupted run leaves: kill -9 at random moments, signals, a full disk, two writers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

TIR = [sys.executable, "-c", "from tircli.cli import main; main()"]

# The whole run comes first, here, so that all is imported; forks of this process are killed.
DRIVER = """
import os, random, signal, sys, time
from pathlib import Path
import tircli.stages.rollout, tircli.engines.scripted
from tircli.cli import app

base, target, kills = sys.argv[1:-2], Path(sys.argv[-2]), int(sys.argv[-1])

def rollout(*more):
    pid = os.fork()
    if pid == 0:
        try:
            code = app([*base, "-o", str(target), *more], standalone_mode=False)
        except BaseException as error:
            sys.stderr.write(f"{error!r}")
            os._exit(1)
        os._exit(code or 0)
    return pid

def ended(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

start = time.monotonic()
assert not app([*base, "-o", str(target.with_name("whole.jsonl"))], standalone_mode=False)
seconds = time.monotonic() - start
chance, killed, moments = random.Random(0), 0, set()
part = target.with_name(target.name + ".part")
while killed < kills:
    pid = rollout("--resume")
    time.sleep(chance.uniform(0.0, seconds / 3))
    os.kill(pid, signal.SIGKILL)
    if ended(pid) == -signal.SIGKILL:
        killed += 1
        moments.add(part.read_bytes().count(b"\\n") if part.exists() else -1)
    if target.exists():
        target.unlink()
assert ended(rollout("--resume")) == 0
print(killed, len(moments))
"""


def scripted(folder: Path, count: int, seconds: float) -> list[str]:
    """The options of a rollout whose replies take `seconds` each."""
    with open(folder / "q.jsonl", "w") as stream:
        for i in range(count):
            stream.write(json.dumps({"id": f"q{i}", "question": f"{i}?", "answer": "1"}) + "\n")
    call = {"text": "<think>t</think><python>1</python>", "seconds": seconds}
    end = {"text": "<think>t</think><answer>\\boxed{1}</answer>", "seconds": seconds}
    line = {"id": "*", "replies": [call, end]}
    (folder / "replies.jsonl").write_text(json.dumps(line) + "\n")
    base = ["rollout", str(folder / "q.jsonl"), "--engine", "scripted", "-q", "--tools", ""]
    return [*base, "-m", str(folder / "replies.jsonl")]


def ids(path: Path) -> list[str]:
    return [json.loads(line)["id"] for line in path.read_text().splitlines()]


def test_fifty_kills_leave_the_bytes_of_an_uninterrupted_run(tmp_path):
    # 60 trajectories, two at once, 2 x 10 ms each: about 0.7 s when nobody kills.
    base = [*scripted(tmp_path, 60, 0.01), "--concurrency", "2"]
    command = [sys.executable, "-c", DRIVER, *base, str(tmp_path / "o.jsonl"), "50"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    killed, moments = map(int, done.stdout.split())
    assert killed == 50 and moments > 5
    assert (tmp_path / "o.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def begun(command: list[str], part: Path, lines: int = 2) -> subprocess.Popen:
    """The process, once its part file has so many lines."""
    process = subprocess.Popen([*TIR, *command], stderr=subprocess.PIPE, text=True)
    for _ in range(1500):
        if part.exists() and part.read_bytes().count(b"\n") >= lines:
            return process
        time.sleep(0.02)
    process.kill()
    raise AssertionError(process.communicate()[1])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_drops_what_runs_and_the_rest_goes_on(tmp_path, number):
    target, part = tmp_path / "o.jsonl", tmp_path / "o.jsonl.part"
    command = [*scripted(tmp_path, 30, 0.05), "--concurrency", "2", "-o", str(target)]
    process = begun(command, part)
    process.send_signal(number)
    said = process.communicate(timeout=60)[1]
    assert (process.returncode, said) == (130, "interrupted; go on with --resume\n")
    assert not target.exists() and part.read_bytes().endswith(b"\n")
    done = subprocess.run([*TIR, *command, "--resume"], capture_output=True, timeout=60)
    assert done.returncode == 0 and ids(target) == [f"q{i}#0" for i in range(30)]


def test_a_disk_that_is_full_is_one_line_and_what_was_whole_goes_on(tmp_path):
    target = tmp_path / "o.jsonl"
    command = [*scripted(tmp_path, 200, 0.0), "-o", str(target)]
    limited = f"ulimit -f 64; exec {' '.join(map(repr, [*TIR, *command]))}"
    done = subprocess.run(["bash", "-c", limited], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1), done.stderr
    assert "o.jsonl.part: File too large; make room and go on with --resume" in done.stderr
    assert not target.exists()
    done = subprocess.run([*TIR, *command, "--resume"], capture_output=True, timeout=60)
    assert done.returncode == 0 and len(set(ids(target))) == 200


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_device_at_stdout_is_one_line(tmp_path):
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [*TIR, *scripted(tmp_path, 3, 0.0)], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert (done.returncode, done.stderr) == (2, "stdout: No space left on device; make room\n")


def test_two_rollouts_of_one_output_are_refused(tmp_path):
    target, part = tmp_path / "o.jsonl", tmp_path / "o.jsonl.part"
    command = [*scripted(tmp_path, 30, 0.1), "--concurrency", "2", "-o", str(target)]
    first = begun(command, part, lines=1)
    second = subprocess.run([*TIR, *command, "--resume"], capture_output=True, text=True)
    first.kill()
    first.communicate()
    assert second.returncode == 2 and "another tir is writing it" in second.stderr


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--tools", "python"], "tools []"),
        (["--tool-seconds", "3"], "tool_seconds 10.0"),
        (["--no-final-turn"], "final_turn True"),
        (["--no-tokens"], "tokens True"),
        (["--max-turns", "3"], "max_turns None"),
        (["-k", "2"], "samples 1"),
        (["--limit", "1"], "holds q1#0, which this run does not make"),
    ],
)
def test_a_resume_with_other_options_says_which(tmp_path, more, says):
    command = [*scripted(tmp_path, 2, 0.0), "-o", str(tmp_path / "o.jsonl")]
    assert subprocess.run([*TIR, *command]).returncode == 0
    before = (tmp_path / "o.jsonl").read_bytes()
    done = subprocess.run([*TIR, *command, "--resume", *more], capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1) and says in done.stderr
    assert (tmp_path / "o.jsonl").read_bytes() == before


def test_a_run_out_of_its_budget_is_code_3_and_goes_on(tmp_path):
    target = tmp_path / "o.jsonl"
    command = [*scripted(tmp_path, 10, 0.0), "-o", str(target)]
    done = subprocess.run(
        [*TIR, *command, "--run-max-turns", "7", "--concurrency", "1"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 3 and not target.exists()
    assert "the run's 7 turns are used up; 3 of 10 trajectories are done" in done.stderr
    done = subprocess.run([*TIR, *command, "--resume"], capture_output=True)
    assert done.returncode == 0 and len(ids(target)) == 10


def test_machines_read_the_progress(tmp_path):
    log = tmp_path / "log.jsonl"
    command = [*scripted(tmp_path, 5, 0.0), "-o", str(tmp_path / "o.jsonl"), "--log-json", str(log)]
    assert subprocess.run([*TIR, *command]).returncode == 0
    last = json.loads(log.read_text().splitlines()[-1])
    assert (last["done"], last["total"], last["errors"], last["turns"]) == (5, 5, 0, 10)
    assert last["tokens_out"] == 5 * (34 + 42)  # bytes of a call and of an answer
    assert last["running"] == 0
