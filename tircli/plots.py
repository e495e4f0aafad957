"""Pictures of runs and of Pareto fronts, by matplotlib (extra `plot`): PNG, SVG or one HTML page.

Colours are Okabe and Ito's, which colour-blind people can tell apart; runs differ in marker, line
and hatching as well. Fronts take `cividis`, whose lightness alone tells the order.
"""

from __future__ import annotations

import html
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tircli.records import STATUSES, InputError, Json, MissingExtra

if TYPE_CHECKING:
    from tircli.pareto import Population
    from tircli.scatter import Map

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#000000", "#8C7000")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
LINES: tuple[Any, ...] = ("-", "--", "-.", ":")
HATCHES = ("", "//", "..", "xx", "\\\\", "--", "++", "oo")
MOST_RUNS = len(COLOURS)
KINDS = (".png", ".svg", ".html")
AXES = {
    "correct": "correct",
    "effi": "efficiency",
    "conciseness": "conciseness",
    "successful_execution": "successful\nexecution",
    "reasoning_length": "reasoning\nlength",
}
"""The five metrics of ET-Agent's radar."""
STATUS_COLOURS = dict(zip(STATUSES, (*COLOURS[2:3], *COLOURS[:2], *COLOURS[3:]), strict=False))


def check(option: str, path: Path) -> None:
    """Raises InputError for another kind of file, MissingExtra without matplotlib."""
    if path.suffix.lower() not in KINDS:
        raise InputError(f"{option}: {path}: name a file that ends in {', '.join(KINDS)}")
    try:
        import matplotlib  # noqa: F401
    except ModuleNotFoundError:
        raise MissingExtra(f"{option}: needs matplotlib; pip install 'tircli[plot]'") from None


def save(figure: Any, path: Path, title: str) -> None:
    """Writes the figure as its suffix says; HTML is one file with the drawing inside."""
    from matplotlib import rc_context

    # Letters stay text, so that a page can be searched; ids do not change from run to run.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "tir"}):
        if path.suffix.lower() == ".png":
            figure.savefig(path, dpi=150)
            return
        drawing = io.StringIO()
        figure.savefig(drawing, format="svg", metadata={"Date": None})
    svg = drawing.getvalue()
    if path.suffix.lower() == ".svg":
        path.write_text(svg, "utf-8")
        return
    svg = re.sub(r"^.*?(?=<svg)", "", svg, flags=re.DOTALL)
    page = (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(title)}</title>"
        "<style>body{margin:1em;background:#fff}svg{max-width:100%;height:auto}</style></head>\n"
        f"<body>{svg}</body></html>\n"
    )
    path.write_text(page, "utf-8")


def runs_figure(runs: dict[str, Json], points: Map | None = None) -> Any:
    """The page of `tir metrics`: radar, calls against accuracy, calls per question, statuses."""
    if len(runs) > MOST_RUNS:
        raise InputError(
            f"--plot: {len(runs)} runs in one picture; at most {MOST_RUNS} can be told apart, "
            "choose a field of --by with fewer values"
        )
    figure = _figure(12, 9.6 if points is None else 15)
    grid = figure.add_gridspec(2 if points is None else 3, 2)
    _radar(figure.add_subplot(grid[0, 0], polar=True), runs)
    _accuracy(figure.add_subplot(grid[0, 1]), runs)
    _question_calls(figure.add_subplot(grid[1, 0]), runs)
    _statuses(figure.add_subplot(grid[1, 1]), runs)
    if points is not None:
        _scatter(figure.add_subplot(grid[2, :]), points)
    if len(runs) > 1:
        _legend(figure, short_names(list(runs)))
    return figure


def short_names(names: list[str]) -> list[str]:
    """The names without the folders that all share: `a/x.jsonl`, `b/x.jsonl` of two paths."""
    parts = [name.split("/") for name in names]
    while len(parts[0]) > 1 and all(part[0] == parts[0][0] and len(part) > 1 for part in parts):
        parts = [part[1:] for part in parts]
    return ["/".join(part) for part in parts]


def _figure(width: float, height: float) -> Any:
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def _legend(figure: Any, names: Sequence[str]) -> None:
    from matplotlib.lines import Line2D

    handles = [
        Line2D([], [], color=COLOURS[i], marker=MARKERS[i], linestyle=LINES[i % 4], label=name)
        for i, name in enumerate(names)
    ]
    figure.legend(handles=handles, loc="outside upper center", ncols=min(len(names), 4))


def _tidy(axis: Any, title: str, x: str = "", y: str = "") -> None:
    axis.set_title(title, loc="left", fontsize=11, fontweight="bold")
    axis.set_xlabel(x)
    axis.set_ylabel(y)
    axis.spines[["top", "right"]].set_visible(False)
    axis.grid(alpha=0.25)
    axis.set_axisbelow(True)


def _radar(axis: Any, runs: dict[str, Json]) -> None:
    means = {name: {key: run["metrics"][key]["mean"] for key in AXES} for name, run in runs.items()}
    known = [key for key in AXES if all(found[key] is not None for found in means.values())]
    axis.set_title("ET-Agent's five metrics", loc="left", fontsize=11, fontweight="bold", pad=24)
    missing = [AXES[key].replace("\n", " ") for key in AXES if key not in known]
    if missing:
        axis.set_xlabel(f"not measured: {', '.join(missing)}", fontsize=9)
    if len(known) < 3:
        axis.set_axis_off()
        axis.text(0.5, 0.5, "too few are measured", transform=axis.transAxes, ha="center")
        return
    longest = max(found["reasoning_length"] or 0 for found in means.values()) or 1.0
    angles = np.linspace(0, 2 * np.pi, len(known), endpoint=False)
    labels = []
    for key in known:
        label = AXES[key]
        labels.append(f"{label}\n(1 is {longest:.3g})" if key == "reasoning_length" else label)
    for i, found in enumerate(means.values()):
        values = [
            (found[key] or 0) / (longest if key == "reasoning_length" else 1) for key in known
        ]
        style = {"color": COLOURS[i], "linestyle": LINES[i % 4], "marker": MARKERS[i]}
        axis.plot([*angles, angles[0]], [*values, values[0]], linewidth=1.8, markersize=5, **style)
        axis.fill(angles, values, color=COLOURS[i], alpha=0.08)
    axis.set_theta_offset(np.pi / 2)
    axis.set_theta_direction(-1)
    axis.set_xticks(angles, labels, fontsize=9)
    axis.tick_params(axis="x", pad=18)
    axis.set_ylim(0, 1)
    axis.set_yticks([0.25, 0.5, 0.75, 1], ["", "0.5", "", "1"], fontsize=8, color="#555555")


def _accuracy(axis: Any, runs: dict[str, Json]) -> None:
    greatest = max(
        (cell["graded"] for run in runs.values() for cell in run["calls"]["trajectories"].values()),
        default=0,
    )
    for i, run in enumerate(runs.values()):
        cells = [
            (int(calls), cell["correct"], cell["graded"])
            for calls, cell in run["calls"]["trajectories"].items()
            if cell["graded"]
        ]
        if cells:
            x, y, n = zip(*cells, strict=True)
            axis.plot(x, y, color=COLOURS[i], linestyle=LINES[i % 4], linewidth=1, alpha=0.7)
            sizes = [20 + 180 * count / greatest for count in n]
            style = {"color": COLOURS[i], "marker": MARKERS[i], "alpha": 0.8}
            axis.scatter(x, y, sizes, edgecolors="white", **style)
    _tidy(axis, "Calls against accuracy", "executed calls (area: trajectories)", "mean of correct")
    axis.set_ylim(-0.05, 1.08)
    axis.xaxis.get_major_locator().set_params(integer=True)


def _question_calls(axis: Any, runs: dict[str, Json]) -> None:
    width = 0.42 / len(runs)
    for i, run in enumerate(runs.values()):
        bins = {float(mean): n for mean, n in run["calls"]["questions"].items()}
        total = sum(bins.values()) or 1
        places = [mean - 0.21 + (i + 0.5) * width for mean in bins]
        shares = [n / total for n in bins.values()]
        axis.bar(places, shares, width, color=COLOURS[i], hatch=HATCHES[i], edgecolor="white")
        mean = run["metrics"]["tc"]["mean"]
        if mean is not None:
            # At the upper edge: a line through the bars would hide some of them.
            style = {"color": COLOURS[i], "marker": MARKERS[i], "markersize": 9, "clip_on": False}
            axis.plot([mean], [1.0], transform=axis.get_xaxis_transform(), **style)
    _tidy(axis, "Calls per question", "mean over its samples (mark: tc)", "share of questions")
    axis.set_xlim(left=-0.4)
    axis.xaxis.get_major_locator().set_params(integer=True)


def _statuses(axis: Any, runs: dict[str, Json]) -> None:
    from matplotlib.patches import Patch

    names, keys = short_names(list(runs)), []
    left = np.zeros(len(names))
    for status in STATUSES:
        counts = np.array([float(run["counts"]["status"].get(status, 0)) for run in runs.values()])
        if not counts.any():
            continue
        totals = np.array([sum(run["counts"]["status"].values()) or 1 for run in runs.values()])
        shares = counts / totals
        hatch = HATCHES[STATUSES.index(status)]
        colour = STATUS_COLOURS[status]
        axis.barh(names, shares, 0.5, left=left, color=colour, hatch=hatch, edgecolor="white")
        keys.append(Patch(facecolor=colour, hatch=hatch, edgecolor="white", label=status))
        for row, share in enumerate(shares):
            if share >= 0.06:
                box = {"facecolor": "white", "alpha": 0.8, "edgecolor": "none", "pad": 1.5}
                at = left[row] + share / 2
                text = f"{share:.0%}"
                axis.text(at, row, text, ha="center", va="center", fontsize=9, bbox=box)
        left += shares
    _tidy(axis, "Tool status of attempted calls")
    axis.set_xlim(0, 1)
    axis.invert_yaxis()
    axis.grid(axis="y", visible=False)
    if left.any():
        axis.legend(
            handles=keys, loc="upper center", bbox_to_anchor=(0.5, -0.07), ncols=4, frameon=False
        )
    else:
        axis.text(0.5, 0.5, "no calls", transform=axis.transAxes, ha="center")


def _scatter(axis: Any, points: Map) -> None:
    for i, name in enumerate(short_names(points.runs)):
        mine = points.run == i
        x, y = points.places[mine].T
        axis.scatter(
            x, y, 14, color=COLOURS[i], marker=MARKERS[i], alpha=0.6, linewidths=0, label=name
        )
    _tidy(axis, f"{points.count} trajectories by t-SNE of {points.method}")
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[["left", "bottom"]].set_visible(False)
    axis.grid(visible=False)
    axis.legend(loc="best", fontsize=9)


def pareto_figure(populations: dict[str, Population]) -> Any:
    """The groups of each task by their two scores: front by lightness, kept ones filled."""
    figure = _figure(6.2 * max(len(populations), 1), 5.2)
    for i, (name, population) in enumerate(sorted(populations.items())):
        axis = figure.add_subplot(1, len(populations), i + 1)
        _fronts(axis, name, population)
        if not i:
            axis.set_ylabel("S_tool: deviation of calls")
    if not populations:
        axis = figure.add_subplot()
        axis.set_axis_off()
        axis.text(0.5, 0.5, "no group could be chosen from", ha="center")
    return figure


def _fronts(axis: Any, name: str, population: Population) -> None:
    from matplotlib import colormaps
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, ListedColormap

    kept = np.zeros(len(population.fronts))
    kept[population.kept] = 1
    table = np.column_stack([population.s_corr, population.s_tool, population.fronts, kept])
    # One mark for equal groups: a million points are not worth a million marks.
    rows, counts = np.unique(table, axis=0, return_counts=True)
    x, y, front, chosen = rows.T
    last = int(front.max())
    norm = BoundaryNorm(np.linspace(0.5, last + 0.5, min(last, 255) + 1), 256)
    # The palest fifth of the scale cannot be seen on white.
    scale = ListedColormap(colormaps["cividis"](np.linspace(0, 0.8, 256)))
    colours = scale(norm(front))
    sizes = 18 + 14 * np.log2(counts)
    for number in np.unique(front)[:12]:
        line = np.unique(rows[front == number, :2], axis=0)
        style = {"linewidth": 0.8, "alpha": 0.6, "zorder": 1}
        axis.plot(line[:, 0], line[:, 1], color=scale(norm(number)), **style)
    out = chosen == 0
    axis.scatter(
        x[out], y[out], sizes[out], facecolors="white", edgecolors=colours[out], linewidths=1.1
    )
    axis.scatter(x[~out], y[~out], sizes[~out], c=colours[~out], edgecolors="black", linewidths=0.6)
    total = len(population.fronts)
    title = f"{name}: {len(population.kept)} of {total} groups kept (filled; area: equal groups)"
    _tidy(axis, title, "S_corr: deviation of correct")
    colours = ScalarMappable(norm=norm, cmap=scale)
    bar = axis.figure.colorbar(colours, ax=axis, label="front", fraction=0.05)
    bar.set_ticks(sorted({1, (1 + last) // 2, last}))
