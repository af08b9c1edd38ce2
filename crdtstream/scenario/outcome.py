"""Outcome of a run: per call the expectation and the answer, and the digests at the end."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from io import StringIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from crdtstream.core.ids import RegionId
from crdtstream.scenario.markdown import describe, heading
from crdtstream.scenario.replies import Answer
from crdtstream.scenario.rows import Call, Calls, Row, Script, Step

_WIDTH_MAX = 160


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A cell whose answer is not the expected one."""

    call: Call
    label: str
    column: str
    actual: str

    def __str__(self) -> str:
        return (
            f"line {self.call.line}, {self.label}, {self.column}: {self.call.text or 'answer'}: "
            f"expected {self.expected}, got {self.actual}"
        )

    @property
    def expected(self) -> str:
        return self.call.expected_text or "no error"


@dataclass(slots=True)
class Outcome:
    """The result of running a script.

    Attributes:
        answers: by call, in the order they were made.  Generated IDs appear as the file writes
            them, on live nodes too.
        digests: per region, after everything was healed, restarted and synced; all must be equal.
        skipped: why this target did not run it; "" if it did.
    """

    script: Script
    answers: dict[Call, Answer] = field(default_factory=dict)
    mismatches: list[Mismatch] = field(default_factory=list)
    digests: Mapping[RegionId, str] = field(default_factory=dict)
    skipped: str = ""

    @property
    def passed(self) -> bool:
        return not self.mismatches and len(set(self.digests.values())) <= 1

    def table(self, *, color: bool = False, width: int = _WIDTH_MAX) -> str:
        """The scenario as a table with a mark at each cell."""
        out = StringIO()
        console = Console(file=out, force_terminal=color, width=width, highlight=False)
        console.print(self._table())
        for mismatch in self.mismatches:
            console.print(Text(str(mismatch), style="red"))
        if len(set(self.digests.values())) > 1:
            console.print(Text("the regions differ at the end:", style="red"))
            for region, digest in sorted(self.digests.items()):
                console.print(Text(f"  region {region}: {digest}", style="red"))
        return "\n".join(line.rstrip() for line in out.getvalue().splitlines())

    def _table(self) -> Table:
        script = self.script
        table = Table(title=Text(script.about), title_justify="left", show_lines=True)
        table.add_column("time", no_wrap=True)
        for name in script.columns:
            table.add_column(heading(script, name), overflow="fold")
        explained = any(row.explain for row in script.rows)
        if explained:
            table.add_column("explanation")
        for row in script.rows:
            cells = [self._cell(row, name) for name in script.columns]
            table.add_row(row.label, *cells, *([row.explain] if explained else []))
        return table

    def _cell(self, row: Row, name: str) -> Text:
        step: Step | None = row.step
        if not isinstance(step, Calls):
            return Text(describe(row, name), style="dim")
        cell = Text()
        for call in step.cells.get(name, ()):
            if cell:
                cell.append("\n")
            self._append_call(cell, call)
        return cell

    def _append_call(self, cell: Text, call: Call) -> None:
        client = f"({call.client}) " if call.client else ""
        cell.append(client + call.text)
        if call not in self.answers:
            cell.append(" ?", style="yellow")
            return
        mismatch = next((one for one in self.mismatches if one.call is call), None)
        if mismatch is not None:
            cell.append(f"\n✗ → {mismatch.actual}", style="red")
            cell.append(f"\n  expected {mismatch.expected}", style="red")
        elif call.expected_text:
            cell.append("\n✓", style="green")
            cell.append(f" → {call.expected_text}")
        else:
            cell.append(" ✓", style="green")
