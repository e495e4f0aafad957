"""Streams: lines, groups, the writer, and what happens to half-written files."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tircli import jsonl
from tircli.checks import from_json
from tircli.records import InputError, RecordError, Trajectory


def write(path, data: bytes):
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize(
    "data",
    [
        b'\xef\xbb\xbf{"question":"a"}\r\n{"question":"b"}\r\n',
        b'{"question":"a"}\n\n{"question":"b"}',
        '{"question":"a \u2028 \u0085 \x1d"}\n{"question":"b"}\n'.replace(
            "\x1d", "\\u001d"
        ).encode(),
    ],
)
def test_only_a_newline_ends_a_line(tmp_path, data):
    assert len(list(jsonl.read(write(tmp_path / "q.jsonl", data)))) == 2


def test_half_a_surrogate_pair_becomes_a_replacement_character(tmp_path):
    path = write(tmp_path / "q.jsonl", b'{"question":"half \\ud835 pair, whole \\ud83c\\udf78"}\n')
    (trajectory,) = jsonl.read(path)
    assert trajectory.question == "half \ufffd pair, whole \U0001f378"
    assert jsonl.encode({"x": "\ud835"}).decode() == '{"x":"\ufffd"}\n'


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"{", "not JSON"),
        (b'{"question": NaN}', "NaN"),
        (b'{"question":"a","correct":1e999}', "1e999"),
        (b"[1]", "a list"),
        (b"3", "a number"),
        (b'{"question":"\xff"}', "not UTF-8"),
        (b"[" * 100_000, "nested"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, says):
    path = write(tmp_path / "q.jsonl", b'{"question":"good"}\n' + line + b"\n")
    with pytest.raises(RecordError, match=says) as caught:
        list(jsonl.read(path))
    assert f"{path}:2" in str(caught.value)


def test_bad_lines_can_be_skipped(tmp_path):
    skipped = []
    path = write(tmp_path / "q.jsonl", b'x\n{"question":"a"}\n{"answer":1}\n')
    assert len(list(jsonl.read(path, skipped.append))) == 1 and len(skipped) == 2


def test_an_id_that_stands_twice_is_refused(tmp_path):
    path = write(tmp_path / "q.jsonl", b'{"id":"a","question":"x"}\n{"id":"a","question":"y"}\n')
    with pytest.raises(RecordError, match='"a" is also at'):
        list(jsonl.read(path))


def test_the_first_place_of_an_id_is_known_among_many(tmp_path):
    lines = [b'{"id":"%d","question":"x"}\n' % i for i in range(5000)]
    path = write(tmp_path / "q.jsonl", b"\n" + b"".join(lines) + lines[1234])
    with pytest.raises(RecordError, match=r':5002: id "1234" is also at .*q\.jsonl:1236;'):
        list(jsonl.read(path))


def trajectories(*groups):
    return [Trajectory(f"{g}#{i}", g, "?", k=2) for i, g in enumerate(groups)]


def test_groups_stand_together():
    assert [len(g) for g in jsonl.groups(trajectories("a", "a", "b"))] == [2, 1]
    with pytest.raises(RecordError, match="comes back"):
        list(jsonl.groups(trajectories("a", "b", "a")))


def test_a_short_group_is_a_warning():
    said = []
    list(jsonl.groups(trajectories("a"), said.append))
    assert said == ['group "a" has 1 of its 2 samples']


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    target = tmp_path / "out.jsonl"
    with pytest.raises(ZeroDivisionError), jsonl.Writer(str(target)) as writer:
        writer.write(trajectories("a")[0])
        raise ZeroDivisionError
    assert not target.exists() and (tmp_path / "out.jsonl.part").exists()


def test_resume_keeps_whole_records_and_drops_the_torn_and_the_failed(tmp_path):
    good, failed = trajectories("a", "b")
    good.stop, failed.stop, failed.error = "answer", "error", {"type": "X", "message": "y"}
    lines = [jsonl.encode(jsonl.to_json(t)) for t in (good, failed)]
    (tmp_path / "out.jsonl.part").write_bytes(b"".join(lines) + b'{"id":"c')
    with jsonl.Writer(str(tmp_path / "out.jsonl"), resume=True) as writer:
        assert list(writer.kept) == ["a#0"]
        writer.finish()
    assert (tmp_path / "out.jsonl").read_bytes() == lines[0]


def test_an_output_is_not_overwritten_unasked(tmp_path):
    target = tmp_path / "out.jsonl"
    target.write_text("precious")
    with pytest.raises(InputError, match="--overwrite"):
        jsonl.Writer(str(target))
    assert target.read_text() == "precious"


def test_two_writers_of_one_file_are_refused(tmp_path):
    target = str(tmp_path / "out.jsonl")
    with jsonl.Writer(target), pytest.raises(InputError, match="another tir"):
        jsonl.Writer(target, resume=True)


def test_records_stand_in_the_order_asked_for(tmp_path):
    target = tmp_path / "out.jsonl"
    first, second = trajectories("a", "b")
    with jsonl.Writer(str(target), ordered=True) as writer:
        writer.write(second)
        writer.write(first)
        writer.finish(["a#0", "b#1"])
    assert [t.id for t in jsonl.read(str(target))] == ["a#0", "b#1"]


def test_a_device_is_written_to_and_not_replaced():
    with jsonl.Writer("/dev/null", overwrite=True) as writer:
        writer.write(from_json({"question": "1+1?"}))
        writer.finish()
    assert Path("/dev/null").is_char_device()


def test_a_named_pipe_gets_the_records(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_bytes)
        with jsonl.Writer(str(pipe)) as writer:
            writer.write(from_json({"question": "1+1?"}))
            writer.finish()
    assert b"1+1?" in read.result() and pipe.is_fifo()
