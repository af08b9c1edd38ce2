"""Fills docs/semantics/ with how commands are written and with scenarios, or checks it.

This program writes the text between two comments:

    <!-- usage: xadd -->
    <!-- scenario: aa/del-is-observed-remove -->
    <!-- commands: connection, server -->       (whole groups of commands, in a table)
    …
    <!-- end -->

It also refuses pages that leave a command out, and a command on streams or strings that no
scenario of its section runs: the scenarios are tests, so what a page shows is what regions do.

Usage: python tools/semantics.py [--check]

Exit status: 0 written, or current; 1 stale (--check), or something is left out.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

from crdtstream.commands.documentation.manual import pages, usage, usage_markdown
from crdtstream.scenario.markdown import markdown
from crdtstream.scenario.rows import Calls
from crdtstream.scenario.scenario import Scenario

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "semantics"
SCENARIOS = ROOT / "scenarios"

_BLOCK = re.compile(r"(<!-- (usage|scenario|commands): ([^>]+?) -->\n).*?(<!-- end -->)", re.DOTALL)
# Groups of commands whose effects on other regions a scenario must show.
_SHOWN_GROUPS = frozenset({"stream", "string", "crdt"})
_NOTHING_TO_SHOW = frozenset({"help"})


def filled(text: str) -> str:
    """A page with every block written again."""
    return _BLOCK.sub(lambda block: block[1] + _content(block[2], block[3]) + block[4], text)


def _content(kind: str, what: str) -> str:
    if kind == "usage":
        lines = [usage(name.strip()) for name in what.split(",")]
        return "```\n" + "\n".join(lines) + "\n```\n"
    if kind == "commands":
        return _table({group.strip() for group in what.split(",")})
    return "".join(_scenario(name.strip()) for name in what.split(","))


def _table(groups: set[str]) -> str:
    rows = [
        f"| {usage_markdown(name)} | {page.summary} |\n"
        for name, page in sorted(pages().items())
        if page.group in groups and not _is_told_by_others(name)
    ]
    return "| | |\n| --- | --- |\n" + "".join(rows)


def _is_told_by_others(name: str) -> bool:
    """A container, whose subcommands say it all; or HELP."""
    is_container = any(other.startswith(name + "|") for other in pages())
    return is_container or name.rpartition("|")[2] in _NOTHING_TO_SHOW


def _scenario(name: str) -> str:
    path = SCENARIOS / f"{name}.yaml"
    script = Scenario.load(path).script
    title, _, table = markdown(script).partition("\n")
    link = f"../../{path.relative_to(ROOT)}"
    return f"<details><summary>{title}</summary>\n\n[`{name}`]({link})\n{table}\n\n</details>\n"


def left_out(text: str) -> Iterator[str]:
    """Commands that the pages lack."""
    shown = {
        name.strip(): block
        for block in _BLOCK.finditer(text)
        if block[2] == "usage"
        for name in block[3].split(",")
    }
    sections = [match.start() for match in re.finditer(r"^#{1,3} ", text, re.MULTILINE)]
    for name, page in pages().items():
        if _is_told_by_others(name):
            continue
        if page.group not in _SHOWN_GROUPS:
            if f"`{name.upper().replace('|', ' ')}" not in text:
                yield f"{name} is not mentioned"
            continue
        if name not in shown:
            yield f"{name} is in no block <!-- usage: … -->"
            continue
        at = shown[name].start()
        end = min((start for start in sections if start > at), default=len(text))
        if not any(_runs(path, name) for path in _shown_in(text[at:end])):
            yield f"no scenario in the section of {name} runs it"


def _shown_in(section: str) -> Iterator[str]:
    for block in _BLOCK.finditer(section):
        if block[2] == "scenario":
            yield from (name.strip() for name in block[3].split(","))


def _runs(scenario: str, command: str) -> bool:
    words = command.upper().split("|")
    script = Scenario.load(SCENARIOS / f"{scenario}.yaml").script
    steps = [row.step for row in script.rows if isinstance(row.step, Calls)]
    calls = [call for step in steps for cell in step.cells.values() for call in cell]
    return any(call.text.upper().split()[: len(words)] == words for call in calls)


def main(check_only: bool) -> int:
    pages_before = {path: path.read_text() for path in sorted(PAGES.glob("*.md"))}
    pages_now = {path: filled(text) for path, text in pages_before.items()}
    problems = list(left_out("\n".join(pages_now.values())))
    for problem in problems:
        print(f"docs/{PAGES.name}: {problem}", file=sys.stderr)
    for path, text in pages_now.items():
        if text == pages_before[path]:
            continue
        if check_only:
            print(f"{path.relative_to(ROOT)} is not current: run `make docs`", file=sys.stderr)
            problems.append("stale")
        else:
            path.write_text(text)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(check_only="--check" in sys.argv[1:]))
