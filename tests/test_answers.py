"""Equality of mathematical answers: the collection, the switches, shared cases and data."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import defaultdict
from itertools import pairwise
from pathlib import Path

import pytest

from tircli.answers import Rules
from tircli.answers.math import equal
from tircli.protocols import load

SHARED = Path(__file__).parents[2] / "shared"
TIR = [sys.executable, "-c", "from tircli.cli import main; main()"]
COLLECTION = Path(__file__).parent / "answers" / "pairs.jsonl"


def lines(path: Path) -> list[dict]:
    if not path.exists():
        pytest.skip(f"needs {path.name} in ../shared")
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


KINDS = defaultdict(list)
for _row in lines(COLLECTION):
    KINDS[_row["kind"]].append(_row)


@pytest.mark.parametrize("kind", KINDS)
def test_every_pair_of_the_collection_has_the_verdict_of_its_label(kind):
    got = [(row, equal(row["gold"], row["prediction"])) for row in KINDS[kind]]
    assert [(row, verdict.why) for row, verdict in got if verdict.equal != row["equal"]] == []


def test_the_collection_is_large_and_holds_many_wrong_answers():
    rows = [row for rows in KINDS.values() for row in rows]
    assert len(rows) >= 300
    assert sum(not row["equal"] for row in rows) >= 0.4 * len(rows)
    assert len({(row["gold"], row["prediction"]) for row in rows}) == len(rows)


@pytest.mark.parametrize("kind", set(KINDS) - {"choice", "text", "empty"})
def test_the_verdict_does_not_depend_on_which_side_is_gold(kind):
    got = [row for row in KINDS[kind] if equal(row["prediction"], row["gold"]).equal]
    assert got == [row for row in KINDS[kind] if row["equal"]]


@pytest.mark.parametrize("kind", KINDS)
def test_every_gold_that_holds_something_equals_itself(kind):
    golds = [row["gold"] for row in KINDS[kind] if row["gold"]]
    assert [gold for gold in golds if not equal(gold, f"The answer is ${gold}$.").equal] == []


@pytest.mark.parametrize(
    ("gold", "prediction", "value", "sign"),
    [
        (r"50\%", "0.5", True, False),
        (r"50\%", r"50\%", True, True),
        (r"50\%", r"\frac{1}{2}", True, False),
        (r"50\%", "50", False, False),
        ("0.5", "0.5", True, True),
    ],
)
def test_percent_by_value_or_by_sign(gold, prediction, value, sign):
    assert equal(gold, prediction).equal == value
    assert equal(gold, prediction, Rules(percent="sign")).equal == sign


@pytest.mark.parametrize(
    ("gold", "prediction", "optional", "required"),
    [
        (r"12\text{ cm}", "12", True, False),
        ("12", "12 cm", True, False),
        (r"12\text{ cm}", "0.12 m", True, True),
        (r"90^\circ", "90", True, False),
        (r"\$5", "5", True, False),
        (r"\$5", "500 cents", True, True),
        (r"12\text{ cm}", "12 m", False, False),
        ("(3 cm, 4 cm)", "(3, 4)", True, False),
    ],
)
def test_units_optional_or_required(gold, prediction, optional, required):
    assert equal(gold, prediction).equal == optional
    assert equal(gold, prediction, Rules(units="required")).equal == required


@pytest.mark.parametrize("switch", [{"percent": "maybe"}, {"units": "maybe"}])
def test_an_unknown_switch_is_refused(switch):
    with pytest.raises(ValueError, match="percent is value or sign"):
        Rules(**switch)


def judged(tmp_path, *options: str) -> tuple[int, list[float], str]:
    """Exit code, verdicts and what was said of `tir judge` on two answers."""
    rows = [(r"50\%", "0.5"), (r"12\text{ cm}", "12")]
    path = tmp_path / "q.jsonl"
    path.write_text(
        "".join(
            json.dumps({"id": str(n), "question": "?", "answer": gold, "prediction": text}) + "\n"
            for n, (gold, text) in enumerate(rows)
        )
    )
    done = subprocess.run(
        [*TIR, "judge", str(path), "-q", *options],
        capture_output=True,
        text=True,
    )
    return (
        done.returncode,
        [json.loads(line)["correct"] for line in done.stdout.splitlines()],
        done.stderr,
    )


@pytest.mark.parametrize(
    ("options", "correct"),
    [
        ([], [1, 1]),
        (["--percent", "sign"], [0, 1]),
        (["--units", "required"], [1, 0]),
        (["--judge", "math", "--percent", "sign", "--units", "required"], [0, 0]),
    ],
)
def test_the_command_takes_the_switches(tmp_path, options, correct):
    assert judged(tmp_path, *options)[:2] == (0, correct)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--percent", "maybe"], '--percent: "maybe"; choose value or sign'),
        (["--units", "maybe"], '--units: "maybe"; choose optional or required'),
        (["--judge", "qa", "--percent", "sign"], "--percent: only the judges auto and math read"),
        (["--judge", "exact", "--units", "required"], "--units: only the judges auto and math"),
    ],
)
def test_the_command_refuses_switches_that_nothing_reads(tmp_path, options, said):
    code, lines, text = judged(tmp_path, *options)
    assert (code, lines) == (2, [])
    assert text.startswith(said)


def test_a_verdict_names_its_reason():
    assert equal("12 cm", "12 kg").why == "units differ"
    assert equal("(1,2)", "[1,2]").why == "different brackets"
    assert equal("1, 2", "1, 3").why == "an element is missing"
    assert equal("(1,2)", "(1,3)").why == "element 2 differs"
    assert equal("9^{9^{9^9}}", "5").why == "too big to compute"


def test_the_shared_pairs_have_the_verdicts_of_their_labels():
    rows = lines(SHARED / "cases/answer_pairs.jsonl")
    wrong = [row["id"] for row in rows if equal(row["gold"], row["pred"]).equal != row["equal"]]
    assert wrong == []


@pytest.mark.parametrize("name", ["math500", "aime24", "amc23"])
def test_every_gold_is_right_as_its_own_prediction(name):
    golds = [str(row["answer"]) for row in lines(SHARED / f"data/{name}.jsonl")]
    assert [gold for gold in golds if not equal(gold, f"The answer is ${gold}$.").equal] == []


def test_math500_golds_of_other_questions_are_wrong():
    golds = [row["answer"] for row in lines(SHARED / "data/math500.jsonl")]
    found = [pair for pair in pairwise(golds) if pair[0] != pair[1] and equal(*pair).equal]
    assert found == [("5", "x=5")]


def test_the_last_box_counts_and_one_that_never_closes_gives_no_answer():
    protocol = load("torl")
    early = r"So \boxed{23}. No, one case is missing. The answer is \boxed{"
    assert protocol.predict(early) == (None, "unterminated_box")
    assert not equal("23", protocol.predict(early)[0]).equal


def test_a_repeated_box_is_one_answer_with_its_leading_zeros():
    text = r"\boxed{012}, as 1,012,000 shows. Hence \boxed{012}" + "\n**Answer** \\boxed{012}"
    prediction, flag = load("torl").predict(text)
    assert (prediction, flag) == ("012", None)
    assert equal("12", prediction).equal


@pytest.mark.parametrize("text", ["<answer></answer>", "<answer> </answer>", "no tags at all"])
def test_nothing_in_the_answer_tags_is_no_answer(text):
    prediction = load("search-r1").predict(text)[0]
    assert prediction is None
    assert not equal("heron", prediction).equal
    assert equal("", prediction).why == "empty"
