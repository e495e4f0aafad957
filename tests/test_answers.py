"""Tests of answer equality and question answering scores."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from tircli.answers import qa, worker
from tircli.answers.math import equal

SHARED = Path(__file__).parents[2] / "shared"

SAME = [
    ("16", "016"), ("7", "$7$"), ("7", r"\boxed{7}"), ("1234567", "1,234,567"),
    (r"1{,}005", "1005"), (r"\frac{3}{4}", "0.75"), (r"\frac{3}{4}", r"\dfrac34"),
    (r"\frac34", "3/4"), ("¾", "0.75"), ("2½", "2.5"), (r"2\frac{1}{3}", r"\frac{7}{3}"),
    ("3 1/4", "3.25"), ("-5", "−5"), ("17", "１７"), ("2500", "2.5e3"),
    ("2500", r"2.5\times 10^3"), ("twenty-one", "21"), ("45", r"45^\circ"),
    (r"25\%", "0.25"), (r"25\%", r"\frac{1}{4}"), (r"30\text{ kg}", "30"),
    (r"2\text{ km}", r"2000\text{ m}"), (r"90\text{ min}", r"1.5\text{ hours}"),
    (r"\frac{1}{3}", "0.33333"), (r"\pi", "3.14159"), ("B", "(B)"), ("B", "B. a triangle"),
    ("B", "The answer is B."), ("B", r"\textbf{(B)}"), (r"\{4,5\}", r"\{5,4\}"),
    ("1,2,7", "7, 2, 1"), ("x=1,2", "1,2"), ("(1,2)", r"(1, \frac{4}{2})"),
    (r"\left[0,\frac12\right)", "[0,0.5)"), (r"x<4", r"(-\infty,4)"),
    (r"-1<x\le 2", "(-1,2]"), (r"(-\infty,0)\cup(0,\infty)", r"\mathbb{R}\setminus\{0\}"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{bmatrix}1\\2\end{bmatrix}"),
    ("y=3x-1", "3x-1"), ("x-y=1", "2x-2y=2"), ("3:5", "6:10"), (r"\sqrt{8}", r"2\sqrt2"),
    ("(x-1)(x+1)", "x^2-1"), (r"\text{Monday}", "monday"), (r"2^{10}", "1024"),
    (r"\text{No solution}", "no solution"), (r"3\text{ m}^2", r"30000\text{ cm}^2"), ("8 cm", "8"),
    (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}"),
    ("x=1 or x=4", "4, 1"), (r"\emptyset", r"\{\}"), ("|x-1|", "|1-x|"), ("0.3333", r"\frac13"),
    ("2i", "(1+i)^2"), ("i", r"\sqrt{-1}"),
    (r"5!", "120"), (r"\binom{6}{2}", "15"), (r"1\pm\sqrt{2}", r"1-\sqrt2, 1+\sqrt2"),
]  # fmt: skip
OTHER = [
    ("5", ""), ("5", None), ("", ""), ("7", "700"), ("1000000", "1000001"), ("2025", "2025.1"),
    (r"\frac{1}{3}", "0.33"), (r"\pi", "3.14"), (r"12\text{ kg}", r"12\text{ g}"),
    (r"25\%", "2500"), ("B", "A or B"), ("B", "C"), ("110_2", "110"), ("(3,4)", "(4,3)"),
    ("(3,4)", "[3,4]"), (r"\{1,2\}", r"\{1,2,3\}"), ("10:30", "5:15"), ("2,345", r"\{2,345\}"),
    (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1&2\end{pmatrix}"),
    ("3x+y=0", "3x-y=0"), ("x=3", "y=3"), (r"\infty", r"-\infty"), ("x+1", "x-1"),
    (r"\frac{1}{5^{40}}", r"\frac{1}{5^{41}}"), (r"2\cdot 10^{-30}", r"4\cdot 10^{-30}"),
    (r"\sqrt{2}", r"\sqrt{3}"), ("2 x", "2"), ("12:00", "6:00"), ("|x|", "|y|"), (r"50\%", "50"),
]  # fmt: skip
HOSTILE = [
    "5" + "0" * 6000, "9^{9^{9^9}}", "10^{10^{10}}", "{" * 3000 + "1" + "}" * 3000,
    r"\sqrt{" * 30 + "2" + "}" * 30, "((10!)!)!", "100000!", r"2^{2^{2^{x^{100}}}}",
    r"\frac{" * 200, r"(x+y+z)^{4000}", r"\sum_{k=1}^{10^9} \sin(k)", "1e999999999", "\\", "{}",
    r"\int_0^{x} e^{t^2\sin t}dt", "((((", "1/0", r"\sqrt{9^{9^{9}}}", r"\sin(10^{10^{10}})",
]  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _worker():
    assert worker.warm()


@pytest.mark.parametrize(("gold", "pred"), SAME)
def test_same(gold, pred):
    assert equal(gold, pred).equal, equal(gold, pred)


@pytest.mark.parametrize(("gold", "pred"), OTHER)
def test_other(gold, pred):
    assert not equal(gold, pred).equal, equal(gold, pred)


@pytest.mark.parametrize("pred", HOSTILE)
def test_hostile(pred):
    worker.warm()
    start = time.monotonic()
    assert not equal("5", pred).equal
    assert not equal(r"\sqrt{x}", pred).equal or not equal(pred, r"\sqrt{y}").equal
    assert time.monotonic() - start < 20


def test_shared_pairs():
    path = SHARED / "cases/answer_pairs.jsonl"
    if not path.exists():
        pytest.skip("the shared answer pairs are not here")
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    wrong = [
        (row["id"], equal(row["gold"], row["pred"]).why)
        for row in rows
        if equal(row["gold"], row["pred"]).equal != row["equal"]
    ]
    assert wrong == []


def test_math500_golds():
    path = SHARED / "data/math500.jsonl"
    if not path.exists():
        pytest.skip("math500 is not here")
    golds = [json.loads(line)["answer"] for line in path.read_text(encoding="utf-8").splitlines()]
    assert [gold for gold in golds if not equal(gold, f"The answer is ${gold}$.").equal] == []
    pairs = [(a, b) for a, b in pairwise(golds) if a != b]
    assert [pair for pair in pairs if equal(*pair).equal] == [("5", "x=5")]


def test_threads_and_restart():
    worker._SHARED.close()
    jobs = [(f"(x+{n})^2", f"x^2+{2 * n}x+{n * n + n % 2}") for n in range(1, 25)]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda job: equal(*job).equal, jobs))
    assert got == [n % 2 == 0 for n in range(1, 25)]


def test_qa():
    assert qa.em(["The Eiffel Tower"], "eiffel tower!") == 1.0
    assert qa.em(["The Who", "who"], "the the") == 0.0
    assert qa.em(["The"], "The") == 1.0
    assert qa.f1(["New York City"], "York") == pytest.approx(0.5)
    assert qa.f1(["x", "Paris, France"], "paris") == pytest.approx(2 / 3)
    assert qa.f1(["yes"], "yes it is") == 0.0
    assert qa.f1(["no"], "No.") == 1.0
    assert qa.f1(["a"], "") == qa.em(["a"], None) == 0.0
