"""What people see of a result: its flat names, limits for CI, the table, small text plots."""

from __future__ import annotations

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


def table(result: dict[str, Any]) -> Table:
    """`result` of `measure` as a table: metric, mean, 95 % interval, one more column a slice."""
    from rich.table import Table
    from rich.text import Text

    slices = result.get("by", {})
    parts = [result, *slices.values()]
    grid = Table()
    grid.add_column("metric")
    for header in ("mean", "95 % interval", *slices):
        grid.add_column(Text(header), justify="right")
    for name in dict.fromkeys(name for part in parts for name in part["metrics"]):
        cells = [_number(part["metrics"].get(name, {}).get("mean")) for part in parts]
        grid.add_row(
            *map(Text, (name, cells[0], _span(result["metrics"].get(name, {})), *cells[1:]))
        )
    grid.add_section()
    rows = [count_rows(part) for part in parts]
    for name in dict.fromkeys(name for row in rows for name in row):
        cells = [str(row.get(name, 0)) for row in rows]
        grid.add_row(*map(Text, (name, cells[0], "", *cells[1:])))
    return grid


def compare_table(compared: dict[str, Any]) -> Table:
    """A paired comparison: metric, both means, difference with interval, p, detectable."""
    from rich.table import Table
    from rich.text import Text

    grid = Table(title=Text(f"against {compared['base']}, {compared['questions']} questions"))
    grid.add_column("metric")
    for header in ("mean", "base", "difference", "95 % interval", "p", "detectable"):
        grid.add_column(header, justify="right")
    for name, entry in compared["difference"].items():
        cells = [_number(entry[key]) for key in ("mean", "base", "difference", "p", "detectable")]
        grid.add_row(*map(Text, (name, *cells[:3], _span(entry), *cells[3:])))
    grid.add_section()
    for name, share in compared["behaviour"].items():
        grid.add_row(name, f"{_number(share)} %" if share is not None else "-")
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
    return "-" if low is None else f"{_number(low)} to {_number(high)}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"
