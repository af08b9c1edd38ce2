"""Fills docs/logs.md with the events that nodes log, found in the code, or checks it.

Reads every call that logs: its sentence, its level, and the names of its details.  Fails if a
sentence has no name in ``crdtstream/node/log_names.py``, or a name no sentence.

Usage: python tools/logs.py [--check]

Exit status: 0 written, or current; 1 stale (--check), or a name or sentence is missing.
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

from crdtstream.node.log_names import NAMES

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "crdtstream"
PAGE = ROOT / "docs" / "logs.md"

_BLOCK = re.compile(r"(<!-- events -->\n).*?(<!-- end -->)", re.DOTALL)
# Most modules log nothing, and need not be read further.
_MAY_LOG = re.compile(r"logger\.|notice\(|_log_seldom\(")
_LEVELS: Final = ("debug", "info", "warning", "error", "exception", "critical")
# Methods that pass a sentence on, by the level that they log it with; None: their first argument.
_FORWARDERS: Final[Mapping[str, str | None]] = {
    "notice": None,
    "_notice": "info",
    "_log_seldom": "warning",
}
# Keywords that are no details.
_NO_DETAILS: Final = frozenset({"exc_info", "stack_info"})
# They log with Python's own logging, in Spark's processes.
_NOT_A_NODE: Final = frozenset({"spark"})


class LoggingCall(NamedTuple):
    """A place in the code that logs.

    Attributes:
        texts: the sentences that it may log, ``{}`` where they differ from line to line.
    """

    site: str
    levels: tuple[str, ...]
    texts: tuple[str, ...]
    details: tuple[str, ...]


@dataclass(slots=True)
class _Event:
    levels: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    details: set[str] = field(default_factory=set)


class UnreadableError(Exception):
    """A call whose sentence cannot be read from the code; the text says what to do."""


def calls_in(path: Path, root: Path = ROOT) -> Iterator[LoggingCall]:
    """The calls of a file that log.

    Raises:
        UnreadableError: a sentence is not written where it can be read.
    """
    source = path.read_text()
    if not _MAY_LOG.search(source):
        return
    tree = ast.parse(source, str(path))
    names = _assigned(tree)
    for function, call in _calls(tree):
        if not isinstance(call.func, ast.Attribute) or not call.args:
            continue
        levels: tuple[str, ...]
        method, site = call.func.attr, f"{path.relative_to(root)}:{call.lineno}"
        if method in _LEVELS and ast.unparse(call.func.value) == "logger":
            levels, sentence = (method,), call.args[0]
        elif method in _FORWARDERS:
            level = _FORWARDERS[method]
            levels = (level,) if level else tuple(_texts(call.args[0], names, site))
            sentence = call.args[0 if level else 1]
        else:
            continue
        if _is_passed_on(sentence, function):
            continue
        details = tuple(one.arg for one in call.keywords if one.arg and one.arg not in _NO_DETAILS)
        levels = tuple("error" if level == "exception" else level for level in levels)
        yield LoggingCall(site, levels, tuple(_texts(sentence, names, site)), details)


def _calls(tree: ast.AST) -> Iterator[tuple[ast.FunctionDef | None, ast.Call]]:
    """Each call with the innermost function that it stands in."""

    def walk(
        node: ast.AST, function: ast.FunctionDef | None
    ) -> Iterator[tuple[ast.FunctionDef | None, ast.Call]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Call):
                yield function, child
            inner = child if isinstance(child, ast.FunctionDef) else function
            yield from walk(child, inner)

    yield from walk(tree, None)


def _is_passed_on(sentence: ast.expr, function: ast.FunctionDef | None) -> bool:
    """True in a method of ``_FORWARDERS`` itself: its callers have the sentence."""
    return (
        isinstance(sentence, ast.Name)
        and function is not None
        and function.name in _FORWARDERS
        and sentence.id in {one.arg for one in function.args.args}
    )


def _assigned(tree: ast.Module) -> dict[str, list[ast.expr]]:
    """The values of constants of the module, and what its functions return, by name."""
    found: dict[str, list[ast.expr]] = {}
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                found[name] = [value]
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                found[name] = [value]
            case ast.FunctionDef(name=name):
                returned = [one for one in ast.walk(node) if isinstance(one, ast.Return)]
                returned.sort(key=lambda one: one.lineno)
                found[name] = [one.value for one in returned if one.value is not None]
    return found


def _texts(node: ast.expr, names: Mapping[str, list[ast.expr]], site: str) -> Iterator[str]:
    match node:
        case ast.Constant(value=str(text)):
            yield text
        case ast.JoinedStr(values=parts):
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts
            )
        case ast.IfExp(body=body, orelse=orelse):
            yield from _texts(body, names, site)
            yield from _texts(orelse, names, site)
        case ast.Name(id=name) | ast.Call(func=ast.Name(id=name)) if name in names:
            for value in names[name]:
                yield from _texts(value, names, site)
        case ast.Attribute(value=ast.Name(id="notice")):
            # ``_log_notice`` of the engine: what ``Tick.notice`` was given.
            return
        case _:
            raise UnreadableError(
                f"{site}: write the sentence where it is logged, or as a constant of the module;"
                f" {ast.unparse(node)} cannot be read"
            )


def all_calls(package: Path = PACKAGE, root: Path = ROOT) -> list[LoggingCall]:
    """The calls of all modules of a node that log."""
    return [
        call
        for path in sorted(package.rglob("*.py"))
        if not _NOT_A_NODE & set(path.relative_to(package).parts)
        for call in calls_in(path, root)
    ]


def problems(calls: list[LoggingCall], names: Mapping[str, tuple[str, ...]] = NAMES) -> list[str]:
    """Sentences without a name, names without a sentence, and sentences with two names."""
    named = [text for texts in names.values() for text in texts]
    logged = {text for call in calls for text in call.texts}
    return [
        *(
            f"{call.site}: give the sentence a name in crdtstream/node/log_names.py: {text}"
            for call in calls
            for text in call.texts
            if text not in named
        ),
        *(f"no code logs this any more: {text}" for text in named if text not in logged),
        *(f"two names: {text}" for text in sorted(set(named)) if named.count(text) > 1),
    ]


def _events(calls: list[LoggingCall]) -> dict[str, _Event]:
    name_of = {text: name for name, texts in NAMES.items() for text in texts}
    events: dict[str, _Event] = defaultdict(_Event)
    for call in calls:
        for text in call.texts:
            event = events[name_of[text]]
            event.levels.update(call.levels)
            event.details.update(call.details)
    for name, texts in NAMES.items():
        events[name].texts = list(texts)
    return events


def table(calls: list[LoggingCall]) -> str:
    """The events as a table of Markdown."""
    events = _events(calls)
    rows = []
    for name in sorted(events):
        event = events[name]
        levels = ", ".join(level for level in _LEVELS if level in event.levels)
        texts = "<br>".join(text.replace("{}", "…").replace("|", "\\|") for text in event.texts)
        details = ", ".join(f"`{one}`" for one in sorted(event.details))
        rows.append(f"| `{name}` | {levels} | {texts} | {details} |\n")
    return "| event | level | message | details |\n| --- | --- | --- | --- |\n" + "".join(rows)


def filled(page: str, calls: list[LoggingCall]) -> str:
    """The page with its table written again."""
    return _BLOCK.sub(lambda block: block[1] + table(calls) + block[2], page)


def main(arguments: list[str]) -> int:
    try:
        calls = all_calls()
    except UnreadableError as error:
        print(error)
        return 1
    found = problems(calls)
    if found:
        print(*found, sep="\n")
        return 1
    page = PAGE.read_text()
    written = filled(page, calls)
    if written == page:
        return 0
    if "--check" in arguments:
        print("docs/logs.md is stale: run make docs")
        return 1
    PAGE.write_text(written)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
