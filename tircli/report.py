"""What people see of a result: its flat names, limits for CI, the table, small text plots."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tircli.records import STATUSES, STOPS, InputError

if TYPE_CHECKING:
    from rich.table import Table

_TOTALS = ("n", "questions", "graded", "ungraded", "errors")


def flat(result: dict[str, Any]) -> dict[str, float | None]:
    """Every number of `result` of `measure` by the name that a limit may use.

    `correct`, `correct.low`, `n`, `stop.answer`, `status.ok`; of a slice `task=math/correct`;
    of a comparison `compare/correct`, `compare/correct.low`, `compare/correct.p`, `compare/MA`.
    """
    names: dict[str, float | None] = {key: result[key] for key in _TOTALS}
    for name, metric in result["metrics"].items():
        names[name] = metric["mean"]
        names.update({f"{name}.{key}": metric[key] for key in ("low", "high", "stderr")})
    for key, choices in (("stop", (*STOPS, "unfinished")), ("status", STATUSES)):
        names.update({f"{key}.{choice}": 0 for choice in choices})
    names.update(count_rows(result))
    for slice_name, part in result.get("by", {}).items():
        names.update({f"{slice_name}/{name}": value for name, value in flat(part).items()})
    if "compare" in result:
        compared = result["compare"]
        names.update({f"compare/{name}": share for name, share in compared["behaviour"].items()})
        for name, entry in compared["difference"].items():
            names[f"compare/{name}"] = entry["difference"]
            names.update({f"compare/{name}.{key}": value for key, value in entry.items()})
    return names


def fail_under(result: dict[str, Any], limits: dict[str, float]) -> list[str]:
    """One line for each name of `result` (see `flat`) that is below its limit or null (SPEC 8).

    Raises InputError, which lists the names, for one that is not there.
    """
    lines, names = [], flat(result)
    for name, limit in limits.items():
        if name not in names:
            known = ", ".join(result["metrics"])
            raise InputError(
                f'--fail-under: no "{name}"; give one of {known}, with .low or .high, a count '
                "such as errors or stop.answer, or one of these after a slice: task=math/correct"
            )
        value = names[name]
        if value is None:
            lines.append(f"{name} is null, limit {limit:g}")
        elif not value >= limit:
            lines.append(f"{name} is {value:.6g}, below {limit:g}")
    return lines


def _grid(first: str, headers: Iterable[str], **options: Any) -> Table:
    """An empty table: names at the left, numbers at the right, neither ever cut."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), title_justify="left", **options)
    grid.add_column(first, no_wrap=True)
    for header in headers:
        grid.add_column(Text(header), justify="right", no_wrap=True)
    return grid


def _add(grid: Table, *cells: str) -> None:
    from rich.text import Text

    grid.add_row(*map(Text, cells))


def table(result: dict[str, Any]) -> Table:
    """`result` of `measure` as a table: metric, mean, 95 % interval, one more column a slice."""
    slices = result.get("by", {})
    parts = [result, *slices.values()]
    names = list(dict.fromkeys(name for part in parts for name in part["metrics"]))
    means = {name: [part["metrics"].get(name, {}).get("mean") for part in parts] for name in names}
    missing = [name for name in names if all(mean is None for mean in means[name])]
    caption = f"not measured: {', '.join(missing)}" if missing else None
    grid = _grid("metric", ("mean", "95 % interval", *slices), caption=caption)
    for name in names:
        if name not in missing:
            first, *rest = map(_number, means[name])
            _add(grid, name, first, _span(result["metrics"].get(name, {})), *rest)
    grid.add_section()
    rows = [count_rows(part) for part in parts]
    for name in dict.fromkeys(name for row in rows for name in row):
        cells = [str(row.get(name, 0)) for row in rows]
        _add(grid, name, cells[0], "", *cells[1:])
    return grid


def compare_table(compared: dict[str, Any]) -> Table:
    """A paired comparison: metric, both means, change with interval, p, least change to be seen."""
    title = f"against {compared['base']}: {compared['questions']} questions in both"
    caption = f"p: {compared['p_values']}; least: the true change that such data show 4 times in 5"
    headers = ("mean", "base", "change", "95 % interval", "p", "least")
    grid = _grid("metric", headers, title=title, caption=caption)
    for name, entry in compared["difference"].items():
        if entry["difference"] is not None:
            first = [_short(entry[key]) for key in ("mean", "base", "difference")]
            p = entry["p"]
            shown = "-" if p is None else "<.001" if p < 0.001 else f"{p:.3f}"
            _add(grid, name, *first, _span(entry), shown, _short(entry["detectable"]))
    grid.add_section()
    for name, share in compared["behaviour"].items():
        _add(grid, name, "-" if share is None else f"{_number(share)} %")
    if compared["mcnemar"]:
        found = compared["mcnemar"]
        counts = f"+{found['better']} -{found['worse']}"
        _add(grid, "McNemar, exact", counts, "", "", "", _number(found["p"]))
    return grid


def graders_table(result: dict[str, Any]) -> Table:
    """Graders side by side: each with its accuracy, each pair with agreement and kappa."""
    columns = (
        "graded",
        "correct",
        "agree",
        "kappa",
        "both",
        "only_first",
        "only_second",
        "neither",
    )
    headers = [header.replace("_", " ") for header in columns]
    grid = _grid("graders", headers, title=f"{result['n']} trajectories")
    for name, entry in result["graders"].items():
        _add(grid, name, str(entry["graded"]), _number(entry["correct"]))
    grid.add_section()
    for name, pair in result["pairs"].items():
        counts = [str(pair[key]) for key in columns[4:]]
        _add(
            grid, name, str(pair["n"]), "", _number(pair["agree"]), _number(pair["kappa"]), *counts
        )
    return grid


def bars(counts: dict[str, float], width: int = 40) -> list[str]:
    """A line a key: name, a bar whose length is its share of the greatest, the number."""
    greatest = max(counts.values(), default=0) or 1
    margin = max(map(len, counts), default=0)
    lines = []
    for name, value in counts.items():
        eighths = round(8 * width * value / greatest)
        bar = "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()
        lines.append(f"{name:>{margin}} {bar} {_number(value)}")
    return lines


def text_plots(result: dict[str, Any]) -> str:
    """Calls a trajectory, and accuracy by calls, as bars; empty without trajectories."""
    cells = result["calls"]["trajectories"]
    if not cells:
        return ""
    accuracy = {m: c["correct"] for m, c in cells.items() if c["correct"] is not None}
    lines = ["trajectories by executed calls", *bars({m: c["n"] for m, c in cells.items()})]
    if accuracy:
        lines += ["", "correct by executed calls", *bars(accuracy)]
    return "\n".join(lines)


def count_rows(part: dict[str, Any]) -> dict[str, int]:
    """The counts of one result, flat: `stop.answer`, `status.ok`, `calls.python`."""
    rows = {key: part[key] for key in _TOTALS}
    for key, value in part["counts"].items():
        if isinstance(value, dict):
            rows.update({f"{key}.{name}": count for name, count in value.items()})
        else:
            rows[key] = value
    return rows


def _span(entry: dict[str, float | None]) -> str:
    low, high = entry.get("low"), entry.get("high")
    return "-" if low is None else f"{low:.3g} to {high:.3g}"


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
