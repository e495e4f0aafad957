"""Hostile expressions: each is decided within bounds of time and memory, from any thread."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tircli.answers.expression import MAX_NEST, TooBig, parse
from tircli.answers.math import equal

TEXTS = {
    "tower of powers": "9^{9^{9^9}}",
    "plain tower": "9**9**9**9",
    "nested factorials": "((10!)!)!",
    "many factorials": "3" + "!" * 300,
    "large factorial": "1000000000!",
    "6,001 digits": "5" + "0" * 6000,
    "3,900 digits": "7" * 3900,
    "large exponent of ten": "1e999999999",
    "braces": "{" * 1900 + "1" + "}" * 1900,
    "brackets": "[" * 1900 + "1" + "]" * 1900,
    "parentheses": "(" * 1900 + "1" + ")" * 1900,
    "bars": "|" * 3900,
    "sets": r"\{" * 900 + "1" + r"\}" * 900,
    "unbalanced": "([{" * 1300,
    "a megabyte of digits": "1" * 1_000_000,
    "a megabyte of sums": "x+" * 500_000,
    "a megabyte of dollars": "$" * 1_000_000,
    "binomial": r"\binom{10^9}{500000000}",
    "tower of x": "^{".join(["x"] * 40) + "}" * 39,
    "plain tower of x": "^".join(["x"] * 500),
    "roots": r"\sqrt{" * 1000 + "2" + "}" * 1000,
    "power of a sum": "(x+y+z)^{4000}",
    "sine of a tower": r"\sin(10^{10^{10}})",
    "logarithms of zero": r"\ln\ln\ln\ln 0",
    "fractions": r"\frac" * 1000,
    "percent signs": "5" + "%" * 2000,
    "divisions": "/".join(["7"] * 1500),
    "commas": "," * 3999,
    "equations": "x=" * 1999,
    "inequalities": "<".join(["x"] * 1500),
    "plus-minus": r"\pm" * 1000,
    "unions": r"\cup".join(f"({n},{n + 1})" for n in range(300)),
    "large set": r"\{" + ",".join(f"x^{{{n}}}" for n in range(190)) + r"\}",
    "matrices": r"\begin{pmatrix}" * 200,
    "texts": r"\text{" * 500 + "a" + "}" * 500,
    "units": r"5\text{ m}" + r"\text{ m}^{99}" * 50,
    "coprime periods": r"\frac{\pi}{997}k, \frac{\pi}{991}k, k\in\mathbb{Z}",
    "NUL": "5\0",
    "half a surrogate": "\ud800",
}
FORMULAS = {
    "integral": r"\int_0^\infty \frac{\sin(x^3)\ln(x)}{1+x^{17}} dx",
    "infinite sum": r"\sum_{k=1}^{\infty} \frac{\sin k}{k^3+\cos k}",
    "sum over a tower": r"\sum_{k=1}^{10^{10^{10}}} k!",
}
GOLDS = ("5", r"\sqrt{x}", r"\frac{x}{2}+1<3", "(1,2)", r"\{1,2,3\}", "C")


@pytest.mark.parametrize("name", TEXTS)
def test_a_hostile_text_is_wrong_within_seconds_of_this_thread(name):
    for gold in GOLDS:
        start = time.thread_time()
        assert not equal(gold, TEXTS[name]).equal
        assert not equal(TEXTS[name], gold).equal
        assert time.thread_time() - start < 2 * 5


@pytest.mark.parametrize("name", FORMULAS)
def test_a_hostile_formula_is_undecided_and_the_next_question_is_answered(name):
    assert equal("5", FORMULAS[name]).why in ("out of time", "out of memory")
    assert equal(rf"\int_0^{len(name)} 2x dx", str(len(name) ** 2)).equal


def test_all_hostile_texts_together_stay_below_a_gibibyte():
    code = (
        "import json, resource, sys\n"
        "from tircli.answers.math import equal\n"
        "for text in json.load(sys.stdin): equal('5', text), equal(r'\\{1,2\\}', text)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        input=json.dumps(list(TEXTS.values())),
        capture_output=True,
        text=True,
        check=True,
    )
    kilobytes = int(done.stdout) / (1024 if sys.platform == "darwin" else 1)
    assert kilobytes < 1024 * 1024


def test_threads_at_once_get_the_verdicts_of_their_own_pairs():
    pairs = [(f"(x+{n})^2", f"x^2+{2 * n}x+{n * n + n % 2}") for n in range(1, 40)]
    pairs += [(rf"\int_0^{n} 2x dx", str(n * n + n % 2)) for n in range(1, 7)]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda pair: equal(*pair).equal, pairs))
    assert got == [n % 2 == 0 for n in [*range(1, 40), *range(1, 7)]]


def test_a_thread_other_than_the_main_one_judges_hostile_texts():
    got = []
    texts = [TEXTS["nested factorials"], FORMULAS["sum over a tower"], TEXTS["roots"]]
    thread = threading.Thread(target=lambda: got.extend(equal("7", text) for text in texts))
    thread.start()
    thread.join(60)
    assert [verdict.equal for verdict in got] == [False] * 3


@pytest.mark.parametrize(
    "template",
    [
        "__import__('os').system('touch @')",
        "__import__('pathlib').Path('@').touch()",
        "(lambda: open('@','w'))()",
        "eval(\"open('@','w')\")",
        r"\int __import__('pathlib').Path('@').touch() dx",
        r"\sum_{k=1}^{2} open('@','w')",
        r"\immediate\write18{touch @}",
    ],
)
def test_code_in_an_answer_does_not_run(template, tmp_path):
    target = tmp_path / "made"
    code = template.replace("@", str(target))
    assert not equal("5", code).equal
    assert not equal(r"\int_0^1 x dx", code).equal
    assert not target.exists()


def test_the_nesting_of_an_expression_is_bounded():
    deep = MAX_NEST - 5
    assert parse("(" * deep + "1" + ")" * deep) == ("n", 1)
    with pytest.raises(TooBig, match="nested too deep"):
        parse("(" * (MAX_NEST + 1) + "1" + ")" * (MAX_NEST + 1))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_fork_of_the_process_asks_a_server_of_its_own():
    assert equal(r"\int_0^1 2x dx", "1").equal
    child = os.fork()
    if child == 0:
        os._exit(0 if equal(r"\int_0^2 2x dx", "4").equal else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert equal(r"\int_0^3 2x dx", "9").equal
