"""Pictures: what they hold, the files they come in, and what they refuse."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from tircli import jsonl, plots
from tircli.cli import app
from tircli.metrics import measure
from tircli.pareto import Sampler
from tircli.records import InputError, MissingExtra, Segment, ToolUse, Trajectory, to_json
from tircli.scatter import Texts

TIR = [sys.executable, "-c", "from tircli.cli import main; main()"]


@pytest.fixture(scope="module")
def drawing():
    return pytest.importorskip("matplotlib", reason="needs matplotlib: pip install 'tircli[plot]'")


@pytest.fixture(scope="module")
def learning():
    pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'tircli[plot]'")
    import threadpoolctl

    # On few busy cores OpenMP's threads wait for one another: ten times slower than one thread.
    with threadpoolctl.threadpool_limits(1):
        yield


def make(group, i, correct, calls, text="some words", **rest):
    segments = [Segment("prompt", "p", [1]), Segment("model", text, [1] * 50)]
    for n in range(calls):
        use = ToolUse("python", "", "", status="error" if n else "ok")
        segments.append(Segment("tool", "t", [2], tool=use))
    values = {"stop": "answer", "segments": segments, "judge": {"redundant": calls > 1}} | rest
    return Trajectory(f"{group}#{i}", group, f"{group}?", correct=float(correct), **values)


GROUPS = [[make(f"q{q}", i, (q + i) % 2, (q * i) % 3) for i in range(4)] for q in range(6)]


def svg(figure, path):
    plots.save(figure, path, "runs")
    return path.read_text("utf-8")


def test_the_page_of_metrics_names_runs_metrics_and_statuses(drawing, tmp_path):
    runs = {"out/new.jsonl": measure(GROUPS), "out/old.jsonl": measure(GROUPS[:3])}
    text = svg(plots.runs_figure(runs), tmp_path / "p.svg")
    for word in (
        "new.jsonl",
        "old.jsonl",
        "efficiency",
        "conciseness",
        "Calls per question",
        "error",
    ):
        assert f">{word}</text>" in text, word
    assert "out/new" not in text and "not measured" not in text


def test_the_radar_says_what_was_not_measured(drawing, tmp_path):
    groups = [[make("a", 0, 1, 0, judge=None)], [make("b", 0, 0, 1, judge=None)]]
    assert "not measured: conciseness" in svg(
        plots.runs_figure({"a": measure(groups)}), tmp_path / "p.svg"
    )


def test_a_run_without_calls_or_verdicts_can_be_drawn(drawing, tmp_path):
    text = svg(plots.runs_figure({"a": measure([])}), tmp_path / "p.svg")
    assert "too few are measured" in text and "no calls" in text


def test_a_picture_is_the_same_each_time(drawing, tmp_path):
    result = {"a": measure(GROUPS)}
    first, second = (svg(plots.runs_figure(result), tmp_path / f"{i}.svg") for i in "12")
    assert first == second


def test_a_page_is_whole_in_itself(drawing, tmp_path):
    text = svg(plots.runs_figure({"<b>": measure(GROUPS)}), tmp_path / "p.html")
    assert text.startswith("<!doctype html>") and text.count("<svg") == 1
    assert not re.search(r'(src|href)="(?!#)', text) and "<b>" not in text


def test_a_png_is_a_png(drawing, tmp_path):
    plots.save(plots.runs_figure({"a": measure(GROUPS)}), tmp_path / "p.png", "runs")
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


def test_more_runs_than_can_be_told_apart_are_refused(drawing):
    with pytest.raises(InputError, match="at most 8"):
        plots.runs_figure({str(i): measure(GROUPS[:1]) for i in range(9)})


def test_other_kinds_of_file_are_refused(tmp_path):
    with pytest.raises(InputError, match=r"\.png, \.svg, \.html"):
        plots.check("--plot", tmp_path / "p.pdf")


def test_fronts_are_drawn_for_each_task(drawing, tmp_path):
    sampler = Sampler(3)
    for i, group in enumerate(GROUPS):
        for trajectory in group:
            trajectory.task = "math" if i % 2 else "qa"
        sampler.add(group, i)
    sampler.choose()
    text = svg(plots.pareto_figure(sampler.populations), tmp_path / "p.svg")
    assert "qa: 2 of 3 groups kept" in text and "math: 1 of 3 groups kept" in text
    assert "no group could be chosen" in svg(plots.pareto_figure({}), tmp_path / "e.svg")


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["a/b/x", "a/c/x"], ["b/x", "c/x"]),
        (["a/x", "a/y"], ["x", "y"]),
        (["a/x"], ["x"]),
        (["a", "a/b"], ["a", "a/b"]),
    ],
)
def test_names_lose_the_folders_they_share(names, short):
    assert plots.short_names(names) == short


def texts(most, trajectories):
    found = Texts(most)
    for trajectory in trajectories:
        found.add("run", trajectory)
    return found


WRITTEN = [
    make("q", i, 1, 0, "red green blue" if i % 2 else f"one two three {i}") for i in range(40)
]


def test_a_map_holds_what_was_asked_for_whatever_the_order(learning):
    first = texts(12, WRITTEN).map()
    second = texts(12, reversed(WRITTEN)).map()
    assert first.count == 12 and "TF-IDF" in first.method
    assert (first.places == second.places).all()


def test_alike_texts_lie_together(learning):
    found = Texts(20)
    for i in range(20):
        found.add("colours", make("c", i, 1, 0, f"red green blue {i % 3}"))
        found.add("numbers", make("n", i, 1, 0, f"one two three {i % 3}"))
    map_ = found.map()
    middles = [map_.places[map_.run == run].mean(0) for run in (0, 1)]
    nearer = [
        abs(place - middles[run]).sum() < abs(place - middles[1 - run]).sum()
        for place, run in zip(map_.places, map_.run, strict=True)
    ]
    assert map_.runs == ["colours", "numbers"] and sum(nearer) >= 38


def test_too_few_texts_are_no_map():
    with pytest.raises(InputError, match="needs 5"):
        texts(9, WRITTEN[:4]).map()


def test_an_embedder_is_a_folder(tmp_path):
    with pytest.raises((InputError, MissingExtra), match=r"no config\.json"):
        texts(9, WRITTEN).map(str(tmp_path))


def test_a_map_by_an_encoder_of_the_user(learning, tmp_path):
    needs = "needs transformers: pip install 'tircli[local]'"
    transformers = pytest.importorskip("transformers", reason=needs)
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "green", "one", "two"]
    (tmp_path / "vocab.txt").write_text("\n".join(words))
    transformers.BertTokenizer(str(tmp_path / "vocab.txt")).save_pretrained(tmp_path)
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = transformers.BertConfig(vocab_size=len(words), intermediate_size=8, **sizes)
    transformers.BertModel(config).save_pretrained(tmp_path)
    found = texts(9, WRITTEN).map(str(tmp_path))
    assert found.method == f"vectors of {tmp_path}" and found.places.shape == (9, 2)


def test_what_a_map_needs_is_asked_before_the_records_are_read(drawing, learning, tmp_path, capsys):
    options = ["--plot", str(tmp_path / "p.png"), "--tsne", "9", "--embedder", str(tmp_path)]
    assert app(["metrics", "none.jsonl", *options], standalone_mode=False) == 2
    assert "no config.json" in capsys.readouterr().err


def test_pictures_from_the_command_line(drawing, learning, tmp_path):
    source = tmp_path / "t.jsonl"
    source.write_bytes(b"".join(jsonl.encode(to_json(t)) for group in GROUPS for t in group))
    for command, name in (
        (["metrics", source, "--by", "stop", "--tsne", "9", "--json"], "m.html"),
        (["pareto", source, "--keep", "2", "-q"], "p.svg"),
    ):
        arguments = [*map(str, command), "--plot", str(tmp_path / name)]
        env = os.environ | {"OMP_NUM_THREADS": "1"}
        done = subprocess.run([*TIR, *arguments], capture_output=True, timeout=120, env=env)
        assert (done.returncode, done.stderr) == (0, b"")
        assert b"<svg" in (tmp_path / name).read_bytes()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--tsne", "9"], "--tsne: goes with --plot"),
        (["--embedder", "x"], "--embedder: goes with --tsne"),
        (["--plot", "no/such/p.png"], "no/such is no directory"),
        (["--plot", "p.gif"], ".png, .svg, .html"),
    ],
)
def test_bad_options_are_one_line(tmp_path, capsys, monkeypatch, options, says):
    monkeypatch.chdir(tmp_path)
    code = app(["metrics", "none.jsonl", *options], standalone_mode=False)
    err = capsys.readouterr().err
    assert code == 2 and says in err and err.count("\n") == 1
