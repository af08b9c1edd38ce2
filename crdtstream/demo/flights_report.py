"""The closing tables of the pipeline's demo."""

from rich.console import Console
from rich.table import Table

from crdtstream.demo.flights import Outcome
from crdtstream.demo.weather import AIRPORTS


def show(outcome: Outcome, console: Console) -> None:
    """Print what was counted, beside what the file says, and how long each phase took."""
    console.print(_figures(outcome))
    console.print(_phases(outcome))


def _figures(outcome: Outcome) -> Table:
    table = Table(title="what was counted", title_justify="left")
    for name, justify in (("", "left"), ("in Spark", "right"), ("in the file", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    rows = [
        *(
            (f"flights of {airport}, written in region {region}", outcome.written[region], None)
            for region, airport in AIRPORTS.items()
        ),
        ("entries that the streaming query read", outcome.batch_rows, outcome.flights),
        ("micro-batches", outcome.batches, None),
        (
            "rows of delays by airport and hour",
            outcome.hours - len(outcome.hours_differing),
            outcome.hours,
        ),
        ("entries in the archive", outcome.archived, outcome.flights),
        ("  with different IDs", outcome.archived_ids, outcome.flights),
        ("  archived while flights were written", outcome.archived_early, None),
        (
            "  whole rows as in the file",
            outcome.flights - outcome.flights_missing,
            outcome.flights,
        ),
        ("entries alike in all regions", outcome.audited, outcome.flights),
    ]
    for name, found, expected in rows:
        table.add_row(name, f"{found:,}", "" if expected is None else f"{expected:,}")
    return table


def _phases(outcome: Outcome) -> Table:
    table = Table(title="seconds", title_justify="left")
    table.add_column("phase")
    table.add_column("seconds", justify="right")
    table.add_column("")
    notes = {
        "write, cut and join": f"region 2 alone for {outcome.cut_seconds:.1f} s;"
        f" {sum(outcome.written.values()) / outcome.seconds['write, cut and join']:,.0f} rows/s"
    }
    for phase, seconds in outcome.seconds.items():
        table.add_row(phase, f"{seconds:.1f}", notes.get(phase, ""))
    table.add_row("all", f"{sum(outcome.seconds.values()):.1f}", "")
    return table
