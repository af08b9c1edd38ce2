"""The words of a table: headings and steps, and the Markdown table like those of AA."""

from typing import assert_never

from crdtstream.scenario.rows import (
    Calls,
    Crash,
    Heal,
    Partition,
    Restart,
    Row,
    Script,
    Skew,
    Sync,
    Wait,
)


def heading(script: Script, name: str) -> str:
    """Heading of a column."""
    return f"Region {script.columns[name]}"


def describe(row: Row, name: str) -> str:
    """Text of a row that is no command, in the column of region ``name``."""
    match row.step:
        case Calls():
            return ""
        case None:
            return f"clock at {row.clocks[name]}" if name in row.clocks else ""
        case Sync(regions):
            return "— Sync —" if name in regions else ""
        case Partition(pairs):
            ends = [pair[1] if pair[0] == name else pair[0] for pair in pairs if name in pair]
            return "— cut off from " + ", ".join(ends) + " —" if ends else ""
        case Heal():
            return "— healed —"
        case Crash(region):
            return "— crash —" if region == name else ""
        case Restart(region):
            return "— restart —" if region == name else ""
        case Skew(by_ms):
            return f"— clock {by_ms[name]:+} ms —" if name in by_ms else ""
        case Wait(ms):
            return f"— {ms} ms pass —"
        case unreachable:
            assert_never(unreachable)


def markdown(script: Script) -> str:
    """The script as a Markdown table: time, a column per region, explanations if there are any."""
    explained = any(row.explain for row in script.rows)
    heads = ["Time", *(heading(script, name) for name in script.columns)]
    if explained:
        heads.append("Explanation")
    lines = [f"{script.about}", "", f"Source: {script.source}", ""]
    lines.append(_line(heads))
    lines.append("|" + " --- |" * len(heads))
    for row in script.rows:
        cells = [row.label, *(_cell(row, name) for name in script.columns)]
        if explained:
            cells.append(_prose(row.explain))
        lines.append(_line(cells))
    return "\n".join(lines)


def _cell(row: Row, name: str) -> str:
    if not isinstance(row.step, Calls):
        return _prose(describe(row, name))
    parts = []
    for call in row.step.cells.get(name, ()):
        client = f"({call.client}) " if call.client else ""
        if call.text:
            parts.append(f"{client}`{_escape(call.text)}`")
        elif client:
            parts.append(client.strip())
        if call.expected_text:
            parts.append(f"→ {_prose(call.expected_text)}")
    return "<br>".join(parts)


def _line(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _prose(text: str) -> str:
    """Text outside of code: ``<`` would begin a tag, and ``[a] [b]`` would be a link."""
    return _escape(text).replace("<", "&lt;").replace("] [", "] \\[")


def _escape(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
