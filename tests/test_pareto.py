"""Pareto sampling: the sweep against the definition, what is set aside, and the command."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys

import pytest

from tircli import jsonl
from tircli.papers.pareto import crowding_distances, dispersion, front_numbers, select
from tircli.pareto import Sampler, filled, right, shares
from tircli.records import InputError, Segment, ToolUse, Trajectory, to_json
from tircli.spool import Spool

TIR = [sys.executable, "-c", "from tircli.cli import main; main()", "pareto"]


def oracle_fronts(points):
    """By the definition: peel off what no remaining point dominates."""
    fronts, left, number = [0] * len(points), set(range(len(points))), 1
    while left:
        front = {
            i
            for i in left
            if not any(
                points[j][0] >= points[i][0]
                and points[j][1] >= points[i][1]
                and points[j] != points[i]
                for j in left
            )
        }
        for i in front:
            fronts[i] = number
        left -= front
        number += 1
    return fronts


def oracle_select(points, target):
    """Front by front; the one that overflows by crowding distance, ties by input order."""
    kept, fronts = [], oracle_fronts(points)
    for number in range(1, max(fronts, default=0) + 1):
        front = [i for i, f in enumerate(fronts) if f == number]
        if len(kept) + len(front) <= target:
            kept += front
            continue
        distance = dict.fromkeys(front, 0.0)
        for m in (0, 1):
            order = sorted(front, key=lambda i: points[i][m])
            span = points[order[-1]][m] - points[order[0]][m]
            if not span:
                continue
            distance[order[0]] = distance[order[-1]] = math.inf
            for j in range(1, len(order) - 1):
                step = points[order[j + 1]][m] - points[order[j - 1]][m]
                distance[order[j]] += step / span
        kept += sorted(front, key=lambda i: (-distance[i], i))[: target - len(kept)]
        break
    return sorted(kept)


def draw(seed):
    """Points on a coarse grid (many ties), on a fine one, or all on one line."""
    rng = random.Random(seed)
    n = rng.choice([0, 1, 2, 3, 5, 20, 60])
    grid = rng.choice([1, 2, 4, 30, 10**6])
    points = [(rng.randrange(grid) / 8, rng.randrange(grid) / 8) for _ in range(n)]
    if seed % 5 == 0:  # one front: as one falls the other rises
        points = [(x, 10.0 - x) for x, _ in points]
    return points, rng.randrange(n + 3)


@pytest.mark.parametrize("start", range(0, 500, 50))
def test_the_sweep_equals_the_definition(start):
    for seed in range(start, start + 50):
        points, target = draw(seed)
        x, y = [p[0] for p in points], [p[1] for p in points]
        assert front_numbers(x, y) == oracle_fronts(points), seed
        assert select(x, y, target) == oracle_select(points, target), seed


@pytest.mark.parametrize(
    ("points", "target", "kept"),
    [
        ([], 3, []),
        ([(1, 1)], 1, [0]),
        ([(1, 1)], 0, []),
        ([(1, 2), (2, 1)], 1, [0]),
        ([(1, 1)] * 5, 3, [0, 1, 2]),
        ([(1, 1), (2, 2)], 1, [1]),
        # One front; spans 4 and 4. Inner: (3-0)/4 + (4-1)/4, (4-1)/4 + (3-0)/4: the first wins.
        ([(0, 4), (1, 3), (3, 1), (4, 0)], 3, [0, 1, 3]),
        # Inner: 2/4 + 2/4, 3/4 + 3/4: the second is lonelier.
        ([(0, 4), (1, 3), (2, 2), (4, 0)], 3, [0, 2, 3]),
    ],
)
def test_small_fronts_by_hand(points, target, kept):
    assert select([p[0] for p in points], [p[1] for p in points], target) == kept


def test_crowding_distance_by_hand():
    assert crowding_distances([0, 1, 3], [3, 2, 0]) == [math.inf, 2.0, math.inf]
    assert crowding_distances([1, 1, 1], [2, 2, 2]) == [0, 0, 0]


def test_dispersion_is_the_population_deviation():
    assert dispersion([1, 2, 3, 2]) == 0.707106781187
    assert dispersion([1, 0]) == 0.5
    assert dispersion([7]) == 0
    with pytest.raises(ValueError, match="no values"):
        dispersion([])


def test_float_residue_is_no_dispersion():
    assert dispersion([0.1 + 0.2, 0.3, 0.3]) == 0


@pytest.mark.parametrize(
    ("sizes", "keep", "expected"),
    [
        ({"math": 60, "qa": 30}, 10, {"math": 7, "qa": 3}),
        ({"math": 5, "qa": 5}, 3, {"math": 2, "qa": 1}),
        ({"math": 1, "qa": 99}, 99, {"math": 1, "qa": 98}),
        ({"math": 2, "qa": 3}, 9, {"math": 2, "qa": 3}),
        ({}, 3, {}),
    ],
)
def test_tasks_share_in_proportion(sizes, keep, expected):
    assert shares(sizes, keep) == expected


def member(group, i, correct, calls, **rest):
    segments = [Segment("prompt", "p"), Segment("model", "m")]
    for _ in range(calls):
        segments.append(Segment("tool", "t", tool=ToolUse("python", "1", "1")))
    values = {"answer": "1", "prediction": "1" if correct else "2", "stop": "answer"} | rest
    return Trajectory(f"{group}#{i}", group, "?", correct=correct, segments=segments, **values)


def group(name, corrects, calls, **rest):
    pairs = enumerate(zip(corrects, calls, strict=True))
    return [member(name, i, c, m, **rest) for i, (c, m) in pairs]


def sampled(groups, keep=9, **options):
    sampler = Sampler(keep, **options)
    for i, members in enumerate(groups):
        sampler.add(members, i)
    return sampler.choose(), sampler.report()


def test_uniform_groups_are_set_aside_and_the_shortfall_is_told():
    groups = [group("a", [1, 1], [0, 4]), group("b", [0, 0], [1, 2]), group("c", [1, 0], [1, 1])]
    kept, report = sampled(groups)
    assert kept == [2]
    assert report["set_aside"] == {"all right": 1, "all wrong": 1, "unscored": 0}
    assert (report["kept"], report["shortfall"]) == (1, 8)
    assert sampled(groups, keep_uniform=True)[0] == [0, 1, 2]


def test_errors_and_the_unfinished_do_not_score():
    members = group("a", [1, 1, None, None], [1, 1, 6, 6])
    members[2].stop, members[3].stop = "error", None
    kept, report = sampled([members])
    assert kept == [] and report["set_aside"]["all right"] == 1
    assert report["left_out_of_scores"] == {
        "error": 1,
        "unfinished": 1,
        "not begun": 0,
        "not gradable": 0,
    }


def test_a_group_without_a_score_is_never_kept():
    questions = [Trajectory("a", "a", "?", "1")]
    no_gold = group("b", [None], [1], answer=None)
    kept, report = sampled(filled([questions, no_gold]), keep_uniform=True)
    assert kept == [] and report["set_aside"]["unscored"] == 2
    assert report["left_out_of_scores"]["not begun"] == 1
    assert report["left_out_of_scores"]["not gradable"] == 1


def test_an_answer_is_right_above_0_8():
    assert right(member("a", 0, 0.81, 0)) and not right(member("a", 0, 0.8, 0))
    groups = [group("a", [0.3, 0.7], [0, 1], task="qa"), group("b", [0.9, 0.7], [0, 1], task="qa")]
    assert sampled(groups)[0] == [1]


def test_tasks_are_apart_unless_pooled():
    # Math alone is dominated by qa: pooled, both places go to qa.
    math_groups = [group(f"m{i}", [1, 0], [1, 1]) for i in range(2)]
    qa = [group(f"q{i}", [1, 0], [0, 4], task="qa") for i in range(2)]
    assert sampled([*math_groups, *qa], 2)[0] == [0, 2]
    kept, report = sampled([*math_groups, *qa], 2, pool=True)
    assert kept == [2, 3] and list(report["tasks"]) == ["all"]
    assert report["tasks"]["all"]["kept_of_fronts"] == [{"front": 1, "groups": 2, "kept": 2}]


def test_only_what_has_no_verdict_is_judged():
    members = group("a", [None, 0.0], [0, 0], prediction="1")
    (filled_group,) = filled([members])
    assert [t.correct for t in filled_group] == [1.0, 0.0]
    assert filled_group[0].judge["name"] == "math" and filled_group[1].judge is None


def lines(groups):
    return b"".join(jsonl.encode(to_json(t)) for members in groups for t in members)


GROUPS = [
    group("a", [1, 0], [0, 0]),
    group("b", [1, 1], [0, 3]),
    group("c", [None, None], [0, 2]),
    group("d", [0, 1], [0, 4]),
]
GROUPS[2][0].prediction, GROUPS[2][1].prediction = "1", "2"


def pareto(*arguments, data=b""):
    done = subprocess.run([*TIR, *map(str, arguments)], input=data, capture_output=True, timeout=60)
    return done.returncode, done.stdout, done.stderr.decode()


def ids(data):
    return [json.loads(line)["id"] for line in data.splitlines()]


@pytest.mark.parametrize("piped", [False, True])
def test_groups_leave_whole_in_input_order_from_file_and_pipe(tmp_path, piped):
    path = tmp_path / "t.jsonl"
    path.write_bytes(lines(GROUPS))
    source = "-" if piped else path
    code, out, err = pareto(source, "--keep", "2", "-q", data=path.read_bytes() if piped else b"")
    assert (code, err) == (0, "")
    assert ids(out) == ["c#0", "c#1", "d#0", "d#1"]
    assert [json.loads(line)["correct"] for line in out.splitlines()] == [1, 0, 0, 1]


def test_report_and_shortfall(tmp_path):
    code, out, err = pareto("--keep", "9", "--report", tmp_path / "r.json", data=lines(GROUPS))
    report = json.loads((tmp_path / "r.json").read_bytes())
    assert code == 0 and len(ids(out)) == 6
    assert report["tasks"]["math"] == {
        "eligible": 3,
        "quota": 3,
        "kept": 3,
        "fronts": 3,
        "kept_of_fronts": [{"front": i, "groups": 1, "kept": 1} for i in (1, 2, 3)],
    }
    assert "kept 3 of 4 groups; set aside: 1 all right; 6 fewer than --keep 9" in err


def test_a_report_is_not_overwritten(tmp_path):
    path = tmp_path / "r.json"
    path.write_text("mine")
    code, _, err = pareto("--keep", "1", "--report", path, data=lines(GROUPS))
    assert code == 2 and "--overwrite" in err and path.read_text() == "mine"


def test_bad_lines_that_were_skipped_stay_out(tmp_path):
    first, second = lines(GROUPS[:1]), lines(GROUPS[3:])
    again = first.split(b"\n")[0] + b"\n"
    cut = second.index(b"\n") + 1
    data = first + second[:cut] + b"not json\n\n" + again + second[cut:]
    code, out, err = pareto("--keep", "2", "--on-error", "skip", "-q", data=data)
    assert code == 3 and err.count("skipped") == 2
    assert ids(out) == ["a#0", "a#1", "d#0", "d#1"]


def test_a_file_that_changes_while_it_is_read_is_refused(tmp_path):
    path = tmp_path / "t.jsonl"
    path.write_bytes(lines(GROUPS))
    with Spool(str(path)) as spool:
        offsets = [offset for offset, _ in spool.groups(None, lambda text: None)]
        assert [t.id for t in spool.group_at(offsets[3])] == ["d#0", "d#1"]
        path.write_bytes(lines(GROUPS[:2]))
        with pytest.raises(InputError, match="changed while"):
            spool.group_at(offsets[0])


def test_a_bad_line_leaves_no_half_file_and_the_next_run_succeeds(tmp_path):
    source, target = tmp_path / "t.jsonl", tmp_path / "kept.jsonl"
    source.write_bytes(lines(GROUPS) + b"not json\n")
    code, _, err = pareto(source, "--keep", "2", "-o", target)
    assert code == 2 and f"{source}:9" in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.jsonl"]
    source.write_bytes(lines(GROUPS))
    assert pareto(source, "--keep", "2", "-o", target, "-q")[0] == 0
    assert ids(target.read_bytes()) == ["c#0", "c#1", "d#0", "d#1"]
    code, _, err = pareto(source, "--keep", "2", "-o", target)
    assert code == 2 and "--overwrite" in err


def test_keep_is_needed():
    code, _, err = pareto()
    assert code == 2 and "--keep" in err
