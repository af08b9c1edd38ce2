"""Outcomes as tables: ratios first, then medians, each with its spread."""

from collections.abc import Iterator, Sequence

from benchmarks.aims import shown
from benchmarks.measured import Outcome

Row = Sequence[str]


def rows_of(outcome: Outcome) -> Iterator[Row]:
    """A head, and a row for each case and system.

    A cell is ``ratio ×  median (lowest … highest)``; what the reference did not do has no ratio.
    """
    names: dict[str, None] = {}
    pairs = dict.fromkeys((one.case, one.system) for one in outcome.samples)
    for case, system in pairs:
        names.update(dict.fromkeys(outcome.figures(case, system)))
    yield ["case", "system", *(title(name) for name in names)]
    for case, system in pairs:
        yield [case, system, *(_cell(outcome, case, system, name) for name in names)]


def _cell(outcome: Outcome, case: str, system: str, figure: str) -> str:
    spread = outcome.spread(case, system, figure)
    if spread is None:
        return ""
    text = shown(spread.median)
    if spread.low != spread.high:
        text += f" ({shown(spread.low)} … {shown(spread.high)})"
    ratio = None if system == outcome.reference else outcome.ratio(case, system, figure)
    return text if ratio is None else f"{ratio:.2f} × {text}"


def title(figure: str) -> str:
    """``cpu_us`` as ``cpu, µs``."""
    name, _, unit = figure.rpartition("_")
    if name.endswith("_per"):
        return f"{name.removesuffix('_per').replace('_', ' ')}, /{unit}"
    units = {"us": "µs", "percent": "%", "bytes": "B", "mib": "MiB", "ms": "ms", "s": "s"}
    if unit not in units:
        return figure.replace("_", " ")
    name = name.replace("_", " ")
    for short, long in (("p999", "99.9 %"), ("p99", "99 %"), ("p50", "50 %")):
        name = name.replace(short, long)
    return f"{name}, {units[unit]}"


def text(rows: Sequence[Row]) -> str:
    """For a terminal."""
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    lines = (
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        for row in rows
    )
    return "\n".join(line.rstrip() for line in lines)


def markdown(rows: Sequence[Row]) -> str:
    """For a page."""
    head, *others = rows
    lines = [head, ["---"] * len(head), *others]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
