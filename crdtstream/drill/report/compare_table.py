"""A comparison on a terminal: what is beyond noise, drill by drill."""

from typing import Final

from rich.console import Console
from rich.text import Text

from crdtstream.drill.report.compare import (
    RULE,
    Comparison,
    Difference,
    DrillComparison,
    Judgement,
    Unit,
)
from crdtstream.drill.report.figures import NOTHING, milliseconds, seconds, size
from crdtstream.drill.report.table import Cell, Row, Table, Tone, numbers, texts, words
from crdtstream.drill.report.terminal import rich_table, verdict_text
from crdtstream.page.markup import showable

_TONES: Final = {
    Judgement.BETTER: Tone.GOOD,
    Judgement.WORSE: Tone.BAD,
    Judgement.CHANGED: Tone.WARN,
}


def print_comparison(console: Console, comparison: Comparison) -> None:
    """Print changes beyond noise; one line for a drill without any."""
    if comparison.environment:
        columns = texts("what", "before", "after")
        console.print(rich_table(Table("environment", columns, comparison.environment)))
        console.print()
    for drill in comparison.drills:
        _print_drill(console, drill)
    for names, where in (
        (comparison.only_before, "before"),
        (comparison.only_after, "after"),
    ):
        if names:
            console.print(Text(showable(f"only {where}: {', '.join(names)}")), soft_wrap=True)
    if not comparison.drills:
        console.print("no drill is in both reports")
        return
    counts = [
        f"{sum(drill.count(one) for drill in comparison.drills)} {one.value}"
        for one in (Judgement.BETTER, Judgement.WORSE, Judgement.CHANGED)
    ]
    drills = "1 drill" if len(comparison.drills) == 1 else f"{len(comparison.drills)} drills"
    console.print(Text(f"{drills} in both: {', '.join(counts)}"))
    console.print(Text(f"({RULE})", style="dim"), soft_wrap=True)


def _print_drill(console: Console, drill: DrillComparison) -> None:
    shown = [one for one in drill.differences if one.judgement is not Judgement.NOISE]
    head = Text.assemble((showable(drill.drill), "bold"), ": ", verdict_text(drill.before))
    if drill.after is not drill.before:
        head = Text.assemble(head, " → ", verdict_text(drill.after))
    if not shown:
        head = Text.assemble(head, ", nothing changed beyond noise")
    console.print(head)
    if drill.note:
        console.print(Text(showable(drill.note), style="yellow"), soft_wrap=True)
    if shown:
        columns = [*texts("what"), *numbers("before", "after", "change"), *words("")]
        console.print(rich_table(Table("", columns, [_row(one) for one in shown])))
    console.print()


def _row(one: Difference) -> Row:
    return [
        one.what,
        _value(one.unit, one.before),
        _value(one.unit, one.after),
        _change(one),
        Cell(one.judgement.value, _TONES[one.judgement]),
    ]


def _value(unit: Unit, value: float | str | None) -> str:
    if value is None:
        return NOTHING
    if isinstance(value, str):
        return value
    match unit:
        case Unit.MILLISECONDS | Unit.LAG_MILLISECONDS:
            return f"{milliseconds(value)} ms"
        case Unit.SECONDS:
            return seconds(value)
        case Unit.BYTES | Unit.MEMORY_BYTES:
            return size(value)
        case Unit.COUNT | Unit.EXACT | Unit.WORDS:
            return f"{value:,.0f}"


def _change(one: Difference) -> str:
    """Change in percent, if both are numbers and the first is not 0."""
    if not isinstance(one.before, int | float) or not isinstance(one.after, int | float):
        return ""
    return f"{100 * (one.after - one.before) / one.before:+,.0f} %" if one.before else ""
