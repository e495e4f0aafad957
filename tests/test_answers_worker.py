"""The processes behind the symbolic judge: limits, deaths, use by many threads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tircli.answers.worker import Pool, Reply, Worker
from tircli.records import EngineError

TASKS = '''
import os, resource, signal, time

def echo(left, right):
    return left == right

def spin(left, right):
    while left == "spin":
        pass
    return True

def allocate(left, right):
    return left != "allocate" or bool(len(bytearray(3 << 30)))

def creep(left, right):
    """Memory beyond the resident limit, where the address space is not limited."""
    resource.setrlimit(resource.RLIMIT_AS, (-1, -1))
    kept = []
    while True:
        kept.append(bytearray(b"x") * (8 << 20))

def die(left, right):
    os.kill(os.getpid(), signal.SIGSEGV)

def fail(left, right):
    raise RuntimeError(left)

def unread(left, right):
    return None
'''


@pytest.fixture
def start(tmp_path, monkeypatch):
    """A function that starts a worker for one of TASKS, all closed at the end."""
    (tmp_path / "tircli_hostile_tasks.py").write_text(TASKS)
    monkeypatch.syspath_prepend(tmp_path)
    workers = []

    def begin(task: str, **limits: int) -> Worker:
        workers.append(Worker(f"tircli_hostile_tasks:{task}", **limits))
        return workers[-1]

    yield begin
    for worker in workers:
        worker.close()


def test_a_question_is_answered(start):
    worker = start("echo")
    assert worker.ask("a", "a") == Reply(True, "symbolic")
    assert worker.ask("a", "b") == Reply(False, "symbolic")


def test_a_question_beyond_the_time_limit_is_undecided_and_the_next_is_answered(start):
    worker = start("spin", seconds=1)
    begin = time.monotonic()
    assert worker.ask("spin", "") == Reply(None, "out of time")
    assert time.monotonic() - begin >= 1
    assert worker.ask("rest", "") == Reply(True, "symbolic")


def test_a_question_beyond_the_memory_limit_is_undecided_and_the_next_is_answered(start):
    worker = start("allocate")
    assert worker.ask("allocate", "") == Reply(None, "out of memory")
    assert worker.ask("rest", "") == Reply(True, "symbolic")


@pytest.mark.skipif(sys.platform != "linux", reason="needs a child that lifts RLIMIT_AS")
def test_resident_memory_is_watched_where_the_address_space_is_not_limited(start):
    worker = start("creep", memory=256 << 20, seconds=60)
    assert worker.ask("", "") == Reply(None, "out of memory")


def test_a_child_that_crashes_takes_nothing_with_it(start):
    worker = start("die")
    assert worker.ask("", "") == Reply(None, "crashed")
    assert worker.ask("", "") == Reply(None, "crashed")


def test_an_exception_is_named_in_the_reply(start):
    assert start("fail").ask("x", "") == Reply(None, "cannot be compared (RuntimeError)")


def test_a_question_that_cannot_be_read_is_undecided(start):
    assert start("unread").ask("x", "") == Reply(None, "cannot be read")


def test_a_server_that_was_killed_is_started_again(start):
    worker = start("echo")
    worker.ask("a", "a")
    worker._server.kill()
    worker._server.wait()
    assert worker.ask("b", "b") == Reply(True, "symbolic")


def test_an_interrupted_question_leaves_no_reply_to_the_next(start):
    worker = start("spin", seconds=2)
    assert worker.ask("rest", "") == Reply(True, "symbolic")
    timer = threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        worker.ask("spin", "")
    timer.join()
    assert worker.ask("rest", "") == Reply(True, "symbolic")


def test_a_task_that_does_not_exist_is_an_engine_error():
    with pytest.raises(EngineError, match=r"does not start: .*no_such_module"):
        Worker("no_such_module:same").ask("a", "b")


def test_text_with_line_ends_and_half_surrogates_reaches_the_child(start):
    text = "a\nb\ud800\0"
    assert start("echo").ask(text, text) == Reply(True, "symbolic")


def test_a_pool_of_two_survives_many_questions_at_once_of_which_some_kill(start):
    pool = Pool(2, lambda: start("spin", seconds=1))
    questions = ["spin" if n % 6 == 0 else "rest" for n in range(18)]
    with ThreadPoolExecutor(9) as threads:
        got = list(threads.map(lambda text: pool.ask(text, "").equal, questions))
    assert got == [None if n % 6 == 0 else True for n in range(18)]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_the_server_ends_with_its_caller():
    code = (
        "import sys; from tircli.answers import worker\n"
        "worker.ask('1', '1'); print(worker._SHARED._all[0]._server.pid, flush=True)\n"
        "import os; os._exit(0)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    pid = int(done.stdout)
    for _ in range(200):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        with open(f"/proc/{pid}/stat") as stat:
            if stat.read().split()[2] == "Z":
                return
        time.sleep(0.05)
    pytest.fail("the server outlives its caller")
