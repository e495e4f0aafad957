"""Paired comparison: a table by hand, p-values against scipy, coverage of intervals, graders."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys

import numpy as np
import pytest

from tircli import compare, graders, jsonl, statistics
from tircli.cli import app
from tircli.records import InputError, Segment, ToolUse, Trajectory, to_json

TIR = [sys.executable, "-c", "from tircli.cli import main; main()", "metrics"]


def make(group, i, correct, calls, **rest):
    segments = [Segment("prompt", "p"), Segment("model", "m")]
    segments += [Segment("tool", "t", tool=ToolUse("python", "", "")) for _ in range(calls)]
    values = {"stop": "answer", "segments": segments} | rest
    return Trajectory(f"{group}#{i}", group, f"{group}?", correct=correct, **values)


def side(questions, name="run"):
    """Questions: name -> list of (correct, calls)."""
    found = compare.Side(name)
    for group, samples in questions.items():
        found.add([make(group, i, *sample) for i, sample in enumerate(samples)])
    return found


OURS = {"a": [(1, 1)], "b": [(1, 3)], "c": [(0, 2)], "d": [(1, 1)], "e": [(0, 4)], "f": [(0, 0)]}
BASE = {"f": [(0, 0)], "e": [(0, 1)], "d": [(1, 2)], "c": [(1, 2)], "b": [(0, 3)], "a": [(0, 2)]}


def test_behaviour_by_hand():
    # a: right, base wrong, 1 < 2 calls: MA and AE. b: MA with as many calls. c: LA.
    # d: both right, 1 < 2: ME. e: both wrong, 4 > 1: LE. f: tie.
    got = compare.compare(side(OURS), side(BASE))["behaviour"]
    sixth = 100 / 6
    assert got == pytest.approx(
        {"MA": 2 * sixth, "LA": sixth, "ME": sixth, "LE": sixth, "tie": sixth, "AE": sixth}
    )
    assert sum(got.values()) - got["AE"] == pytest.approx(100)


def test_several_samples_count_by_their_pairs():
    # Pairs: (1,0)-(1,1) ME, (1,0)-(0,0) MA, (0,2)-(1,1) LA, (0,2)-(0,0) LE.
    got = compare.compare(side({"a": [(1, 0), (0, 2)]}), side({"a": [(1, 1), (0, 0)]}))
    assert got["behaviour"] == {"MA": 25, "LA": 25, "ME": 25, "LE": 25, "tie": 0, "AE": 0}
    assert got["mcnemar"] is None


def test_differences_are_over_the_questions_in_both():
    ours, base = side({**OURS, "x": [(1, 0)]}), side({**BASE, "y": [(0, 9)], "z": [(0, 9)]})
    got = compare.compare(ours, base)
    assert (got["questions"], got["only_here"], got["only_base"]) == (6, 1, 2)
    assert got["difference"]["correct"]["difference"] == pytest.approx(3 / 6 - 2 / 6)
    assert got["difference"]["tc"]["mean"] == 11 / 6 and got["difference"]["tc"]["base"] == 10 / 6
    assert got["difference"]["tp"]["difference"] == pytest.approx(3 / 11 - 2 / 10)
    assert got["mcnemar"] == {"better": 2, "worse": 1, "p": 1.0}


def test_a_question_graded_on_one_side_only_is_no_pair():
    got = compare.compare(
        side({"a": [(1, 1)], "b": [(None, 1)]}), side({"a": [(1, 1)], "b": [(0, 1)]})
    )
    assert got["behaviour"]["tie"] == 100
    assert got["difference"]["correct"]["base"] == 1


def test_runs_over_other_questions_are_refused():
    with pytest.raises(InputError, match="no question in common"):
        compare.compare(side({"a": [(1, 1)]}), side({"b": [(1, 1)]}))
    other = compare.Side("base")
    other.add([make("a", 0, 1.0, 0)])
    other.texts[0] += 1
    with pytest.raises(InputError, match="another text"):
        compare.compare(side({"a": [(1, 1)]}), other)


def columns(seed, questions=10, samples=3):
    rng = np.random.default_rng(seed)
    v = rng.integers(0, samples + 1, questions).astype(float)
    return v, np.full(questions, float(samples))


def stack(*sides):
    return [(v[:, None], w[:, None]) for v, w in sides]


def scipy_p(a, b, n_resamples):
    scipy_stats = pytest.importorskip("scipy.stats", reason="needs scipy")
    return scipy_stats.permutation_test(
        (a[0] / a[1], b[0] / b[1]),
        lambda x, y, axis: np.mean(x, axis=axis) - np.mean(y, axis=axis),
        permutation_type="samples",
        vectorized=True,
        n_resamples=n_resamples,
    ).pvalue


@pytest.mark.parametrize("seed", range(3))
def test_exact_swaps_agree_with_scipy(seed):
    a, b = columns(seed), columns(seed + 100)
    assert statistics.swap_p(*stack(a, b), seed=0) == pytest.approx([scipy_p(a, b, np.inf)])


def test_random_swaps_agree_with_scipy_and_repeat():
    a, b = columns(5, 60), columns(8, 60)
    p = statistics.swap_p(*stack(a, b), seed=0)
    assert p == statistics.swap_p(*stack(a, b), seed=0)
    # Two estimates from 10,000 draws each: 4 standard errors of their difference are 0.028.
    assert p == pytest.approx([scipy_p(a, b, 10_000)], abs=0.03)


def test_swaps_of_a_ratio_by_all_of_them():
    a = np.array([2.0, 1, 0, 3]), np.array([1.0, 4, 2, 3])
    b = np.array([0.0, 1, 1, 1]), np.array([2.0, 2, 5, 1])
    observed = a[0].sum() / a[1].sum() - b[0].sum() / b[1].sum()
    hits = 0
    for flips in itertools.product([0, 1], repeat=4):
        f = np.array(flips)
        x = [(1 - f) * a[i] + f * b[i] for i in (0, 1)]
        y = [(1 - f) * b[i] + f * a[i] for i in (0, 1)]
        hits += abs(x[0].sum() / x[1].sum() - y[0].sum() / y[1].sum()) >= abs(observed) - 1e-12
    assert statistics.swap_p(*stack(a, b), seed=0) == [hits / 16]


@pytest.mark.parametrize(
    ("better", "worse"), [(0, 0), (1, 9), (9, 1), (5, 5), (0, 12), (400, 460), (3000, 3100)]
)
def test_mcnemar_agrees_with_scipy(better, worse):
    scipy_stats = pytest.importorskip("scipy.stats", reason="needs scipy")
    n = better + worse
    expected = scipy_stats.binomtest(better, n, 0.5).pvalue if n else 1.0
    assert statistics.mcnemar_p(better, worse) == pytest.approx(expected, rel=1e-9)


def test_mcnemar_by_hand():
    assert statistics.mcnemar_p(1, 9) == pytest.approx(2 * 11 / 1024)


def test_normal_p_agrees_with_scipy():
    scipy_stats = pytest.importorskip("scipy.stats", reason="needs scipy")
    expected = 2 * scipy_stats.norm.sf(1.7)
    assert statistics.normal_p(-3.4, 2.0) == pytest.approx(expected)
    assert (statistics.normal_p(0.0, 0.0), statistics.normal_p(1.0, 0.0)) == (1.0, 0.0)


def test_the_detectable_difference_has_the_power_it_promises():
    # At a true difference of (1.96 + 0.84) standard errors the normal test finds 80 %.
    rng = np.random.default_rng(0)
    a, b = columns(1, 100), columns(2, 100)
    found = statistics.paired(a, b, None)
    draws = rng.normal(found["detectable"], found["stderr"], 20_000)
    assert np.mean(np.abs(draws) > statistics.Z * found["stderr"]) == pytest.approx(0.8, abs=0.01)


def coverage(interval, truth, experiments=1000):
    return (
        sum(low <= truth <= high for low, high in map(interval, range(experiments))) / experiments
    )


def simulated(seed, questions=100, samples=4):
    """Questions of unequal difficulty (mean 0.5), `samples` right or wrong answers each."""
    rng = np.random.default_rng(seed)
    v = rng.binomial(samples, rng.beta(1, 1, questions)).astype(float)
    return v, np.full(questions, float(samples))


def test_bootstrap_and_analytic_intervals_cover_the_truth():
    counts = statistics.draws(100, 0)

    def analytic(seed):
        v, w = simulated(seed)
        mean, half = statistics.ratio(v, w), statistics.Z * statistics.standard_error(v, w)
        return mean - half, mean + half

    def resampled(seed):
        return statistics.bootstrap(statistics.resampled_ratio(*simulated(seed), counts))

    assert 0.93 <= coverage(analytic, 0.5) <= 0.97
    assert 0.93 <= coverage(resampled, 0.5) <= 0.97


def test_intervals_of_a_paired_difference_cover_the_truth():
    counts = statistics.draws(100, 0)

    def interval(seed, counts):
        rng = np.random.default_rng(seed)
        skill = rng.beta(2, 2, 100) * 0.8
        w = np.full(100, 4.0)
        a, b = (rng.binomial(4, skill + gain).astype(float) for gain in (0.2, 0.0))
        found = statistics.paired((a, w), (b, w), counts)
        return found["low"], found["high"]

    assert 0.93 <= coverage(lambda seed: interval(seed, counts), 0.2) <= 0.97
    assert 0.93 <= coverage(lambda seed: interval(seed, None), 0.2) <= 0.97


def test_p_values_are_below_a_level_as_often_as_it_says():
    hits = 0
    for seed in range(200):
        a, b = simulated(2 * seed, 10), simulated(2 * seed + 1, 10)
        hits += statistics.swap_p(*stack(a, b), seed)[0] <= 0.2
    assert 0.13 <= hits / 200 <= 0.27


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ([[20, 5], [10, 15]], 0.4),  # agree 0.7, chance (25*30 + 25*20)/2500 = 0.5
        ([[3, 0], [0, 3]], 1.0),
        ([[4, 0], [0, 0]], None),
        ([[0, 0], [0, 0]], None),
    ],
)
def test_kappa_by_hand(table, expected):
    assert statistics.kappa(table) == pytest.approx(expected)


def test_graders_side_by_side():
    def answer(i, prediction, correct):
        return make("g", i, correct, 0, answer="1/2", prediction=prediction)

    group = [
        answer(0, "1/2", 1.0),
        answer(1, "0.5", 0.0),
        answer(2, "3", 0.0),
        answer(3, "3", None),
    ]
    split = []
    got = graders.side_by_side([group], graders.load(["recorded", "math", "exact"]), split.append)
    assert got["n"] == 4
    assert got["graders"]["recorded"] == {"graded": 3, "correct": pytest.approx(1 / 3)}
    assert got["graders"]["math"] == {"graded": 4, "correct": 0.5}
    pair = got["pairs"]["recorded/math"]
    # Verdicts 1 1, 0 1, 0 0: agree 2/3, chance (1*2 + 2*1)/9 = 4/9, kappa (2/3 - 4/9)/(5/9).
    assert pair == {
        "n": 3,
        "agree": pytest.approx(2 / 3),
        "kappa": pytest.approx(0.4),
        "both": 1,
        "only_first": 0,
        "only_second": 1,
        "neither": 1,
    }
    assert [row["id"] for row in split] == ["g#1", "g#3"]
    assert split[0]["verdicts"]["math"]["correct"] == 1.0


def test_one_grader_is_no_comparison():
    with pytest.raises(InputError, match="two or more"):
        graders.load(["math"])


def write(path, questions):
    trajectories = [
        make(group, i, *sample)
        for group, samples in questions.items()
        for i, sample in enumerate(samples)
    ]
    path.write_bytes(b"".join(jsonl.encode(to_json(t)) for t in trajectories))
    return path


def metrics(*arguments):
    done = subprocess.run([*TIR, *map(str, arguments)], capture_output=True, timeout=60)
    return done.returncode, done.stdout, done.stderr.decode()


def test_compare_on_the_command_line(tmp_path):
    ours, base = write(tmp_path / "a.jsonl", OURS), write(tmp_path / "b.jsonl", BASE)
    code, out, err = metrics(
        *(ours, "--compare", base, "--json"),
        *("--fail-under", "compare/correct=0.1", "--fail-under", "compare/correct.low=0"),
    )
    result = json.loads(out)["compare"]
    assert result["behaviour"]["AE"] == pytest.approx(100 / 6)
    assert (code, err.split(" is ")[0]) == (1, "compare/correct.low")
    assert "McNemar" in metrics(ours, "--compare", base, "--table")[1].decode()


def test_graders_on_the_command_line(tmp_path):
    trajectories = [make("g", i, 1.0, 0, answer="1", prediction=p) for i, p in enumerate("12")]
    source = tmp_path / "t.jsonl"
    source.write_bytes(b"".join(jsonl.encode(to_json(t)) for t in trajectories))
    rows = tmp_path / "d.jsonl"
    code, out, _ = metrics(source, "--graders", "recorded,math", "--disagreements", rows, "--json")
    assert code == 0 and json.loads(out)["pairs"]["recorded/math"]["agree"] == 0.5
    assert [json.loads(line)["id"] for line in rows.read_bytes().splitlines()] == ["g#1"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--graders", "math"], "two or more"),
        (["--graders", "math,exact", "--by", "task"], "goes without"),
        (["--disagreements", "x.jsonl"], "goes with --graders"),
        (["--pass-at", "one"], "whole numbers"),
        (["--pass-at", "0"], "1 or more"),
        (["--fail-under", "correct"], "NAME=NUMBER"),
        (["--fail-under", "nothing=1"], 'no "nothing"'),
        (["--compare", "no.jsonl"], "no such file"),
    ],
)
def test_bad_options_are_one_line(tmp_path, capsys, options, says):
    source = str(write(tmp_path / "a.jsonl", OURS))
    code = app(["metrics", source, "--table", *options], standalone_mode=False)
    err = capsys.readouterr().err
    assert code == 2 and says in err and err.count("\n") == 1


def test_a_question_may_be_drawn_in_any_order():
    rng = random.Random(0)
    names = list(OURS)
    rng.shuffle(names)
    shuffled = {name: OURS[name] for name in names}
    first, second = (compare.compare(side(q), side(BASE)) for q in (OURS, shuffled))
    assert first["behaviour"] == pytest.approx(second["behaviour"])
    assert first["difference"]["correct"]["p"] == second["difference"]["correct"]["p"]


def test_questions_with_other_numbers_of_samples_weigh_the_same():
    ours = {"a": [(1, 0), (0, 0)], "b": [(1, 1)]}
    base = {"a": [(0, 0)], "b": [(1, 2), (1, 1), (1, 0), (0, 5)]}
    # a: MA 1/2, tie 1/2. b: ME 1/4, tie 1/4, LE 1/4, MA (and AE: 1 < 5) 1/4.
    got = compare.compare(side(ours), side(base))["behaviour"]
    assert got == {"MA": 37.5, "LA": 0, "ME": 12.5, "LE": 12.5, "tie": 37.5, "AE": 12.5}
