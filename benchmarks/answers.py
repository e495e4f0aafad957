#!/usr/bin/env python
"""Accuracy and speed of `tircli.answers.math.equal` beside math-verify and graders of strings.

    python benchmarks/answers.py [--rounds 3] [--data DIR] [--show]

Each grader judges the same pairs, set by set, one grader after the other, `--rounds` times in one
process; the best time counts. Every cache of ours is emptied before each turn, so that a pair is
judged once; libraries are loaded and warmed before. The sets:

- `collection`: tests/answers/pairs.jsonl;
- `shared`: DIR/cases/answer_pairs.jsonl (DIR is ../shared unless told), where there is one;
- `math500 gold`: DIR/data/math500.jsonl, each gold answer against itself;
- `math500 respelled`: against itself with \\dfrac for \\frac, sized brackets and other spaces;
- `math500 wrong`: against the next gold answer that is another one.

The graders:

- `tircli`: equal(gold, prediction);
- `math-verify`: verify(parse(gold), parse(prediction)) as its README does, a text without dollars
  in dollars; an exception is a no. Its verdict depends on the order of the two: `either order`
  asks again the other way round after a no;
- `normalised`: equality after the rewriting of LaTeX that graders of the MATH data set do (own
  code);
- `text`: equality of the stripped texts.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable
from pathlib import Path

from tircli.answers import exact, math, read

ROOT = Path(__file__).parents[1]
Pair = tuple[str, str, bool]
Grader = Callable[[str, str], bool]


def tircli(gold: str, prediction: str) -> bool:
    return math.equal(gold, prediction).equal


def _dollars(text: str) -> str:
    return text if "$" in text or "\\boxed" in text else f"${text}$"


def math_verify(gold: str, prediction: str) -> bool:
    from math_verify import parse, verify

    try:
        return bool(verify(parse(_dollars(gold)), parse(_dollars(prediction))))
    except Exception:
        return False


def either_order(gold: str, prediction: str) -> bool:
    return math_verify(gold, prediction) or math_verify(prediction, gold)


def normalise(text: str) -> str:
    """LaTeX as graders of the MATH data set see it: no spaces, units, dollars, sized brackets."""
    text = re.sub(r"\\left|\\right|\\!|\\ |\\\$|\\%|%|\^\{?\\circ\}?", "", text.replace("\n", ""))
    text = re.sub(r"\\text\{ .*?\}$", "", text).replace("tfrac", "frac").replace("dfrac", "frac")
    text = re.sub(r"^\$|\$$|\.$", "", text.strip())
    text = text.replace(" .", " 0.").replace("{.", "{0.")
    text = re.sub(r"^[a-zA-Z]{1,2}\s*=\s*", "", "0" + text if text.startswith(".") else text)
    text = re.sub(r"\\frac(\d)(\d)", r"\\frac{\1}{\2}", re.sub(r"\s", "", text))
    text = re.sub(r"\\sqrt(\w)", r"\\sqrt{\1}", text)
    return re.sub(r"^(-?\d+)/(\d+)$", r"\\frac{\1}{\2}", text)


def normalised(gold: str, prediction: str) -> bool:
    return bool(normalise(gold)) and normalise(gold) == normalise(prediction)


def text(gold: str, prediction: str) -> bool:
    return bool(gold.strip()) and gold.strip() == prediction.strip()


GRADERS: dict[str, Grader] = {
    "tircli": tircli,
    "math-verify": math_verify,
    "either order": either_order,
    "normalised": normalised,
    "text": text,
}


def respelled(gold: str) -> str:
    gold = re.sub(r"\\d?frac(?=\{)", r"\\dfrac", gold.replace(", ", ",").replace(" + ", "+"))
    return re.sub(r"^\((.*)\)$", r"\\left( \1 \\right)", gold)


def rows(path: Path) -> list[dict]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return [json.loads(line) for line in lines]


def sets(data: Path) -> dict[str, list[Pair]]:
    """The pairs of each set that is here."""
    collection = rows(ROOT / "tests/answers/pairs.jsonl")
    golds = [row["answer"] for row in rows(data / "data/math500.jsonl")]
    bare = [re.sub(r"^x\s*=\s*", "", gold) for gold in golds]
    found = {
        "collection": [(r["gold"], r["prediction"] or "", r["equal"]) for r in collection],
        "shared": [
            (row["gold"], row["pred"], row["equal"])
            for row in rows(data / "cases/answer_pairs.jsonl")
        ],
        "math500 gold": [(gold, gold, True) for gold in golds],
        "math500 respelled": [(gold, respelled(gold), True) for gold in golds],
        "math500 wrong": [
            (golds[n - 1], golds[n], False) for n in range(len(golds)) if bare[n - 1] != bare[n]
        ],
    }
    return {name: pairs for name, pairs in found.items() if pairs}


def empty_caches() -> None:
    for cached in (math.equal, read.read, exact.exact):
        cached.cache_clear()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared")
    parser.add_argument("--show", action="store_true", help="list what tircli gets wrong")
    options = parser.parse_args()
    pairs = sets(options.data)
    for grader in GRADERS.values():
        grader(r"\int_0^1 2x dx", "1")
    best: dict[tuple[str, str], float] = {}
    verdicts: dict[tuple[str, str], list[bool]] = {}
    for _ in range(options.rounds):
        for name, members in pairs.items():
            for grader_name, grader in GRADERS.items():
                empty_caches()
                start = time.perf_counter()
                got = [grader(gold, prediction) for gold, prediction, _ in members]
                seconds = time.perf_counter() - start
                key = (name, grader_name)
                best[key] = min(best.get(key, seconds), seconds)
                verdicts[key] = got
    print(f"{'set':18} {'grader':13} {'pairs':>6} {'right':>7} {'false +':>8} {'false -':>8}"
          f" {'pairs/s':>9} {'x math-verify':>14}")  # fmt: skip
    for name, members in pairs.items():
        for grader_name in GRADERS:
            key = (name, grader_name)
            wanted = [equal for _, _, equal in members]
            plus = sum(g and not w for g, w in zip(verdicts[key], wanted, strict=True))
            minus = sum(w and not g for g, w in zip(verdicts[key], wanted, strict=True))
            right = 1 - (plus + minus) / len(members)
            speed = best[name, "math-verify"] / best[key]
            print(f"{name:18} {grader_name:13} {len(members):6} {right:7.2%} {plus:8} {minus:8}"
                  f" {len(members) / best[key]:9.0f} {speed:14.1f}")  # fmt: skip
        if options.show:
            for pair, got in zip(members, verdicts[name, "tircli"], strict=True):
                if got != pair[2]:
                    print("   ", pair)


if __name__ == "__main__":
    main()
