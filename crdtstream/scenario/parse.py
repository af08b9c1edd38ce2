"""From the text of a scenario file to a Script; every problem names its line.

YAML is read as a tree of nodes rather than as values, because nodes know their lines, and because
a cell is always text: ``r1: 110`` must not become a number.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import yaml

from crdtstream.core.ids import REGION_MAX, IdMode, Millis, RegionId
from crdtstream.core.xread_mode import XreadMode
from crdtstream.region.staleness import LagAction
from crdtstream.scenario.expected import Expected, NotationError, parse_expected
from crdtstream.scenario.rows import (
    Call,
    Calls,
    Crash,
    Heal,
    Partition,
    Restart,
    Row,
    Script,
    Settings,
    Skew,
    Step,
    Sync,
    Wait,
)


class ScenarioError(Exception):
    """The file is no scenario.

    Attributes:
        line: where, from 1.
        message: says what is wrong and what would be right.
    """

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.message = message


_LAG_EFFECTS: Final = "max_replication_lag_effects"
_LAG_MS: Final = "max_replication_lag_ms"
_LAG_ACTION: Final = "replication_lag_action"
_SETTINGS: Final = ("id_mode", "mkstream", "xread", _LAG_EFFECTS, _LAG_MS, _LAG_ACTION)
_HEAD: Final = ("about", "source", "regions", "settings", "simulator only", "rows")
_STEPS: Final = ("sync", "partition", "heal", "crash", "restart", "skew", "wait")
_REMARKS: Final = ("t", "at", "explain")
_ARROW: Final = re.compile(r"(?:^|\s)->(?:\s|$)")
_CLIENT: Final = re.compile(r"\((?P<name>[^()\s]+)\)\s*")


def parse(text: str) -> Script:
    """The script that the text of a file writes.

    Raises:
        ScenarioError: it writes none.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise ScenarioError(line, f"not YAML: {error.problem or error}") from error
    except yaml.YAMLError as error:
        raise ScenarioError(1, f"not YAML: {error}") from error
    if root is None:
        raise ScenarioError(1, "the file is empty")

    head = _mapping(root, "a scenario", allowed=_HEAD)
    for key in ("about", "source", "regions", "rows"):
        if key not in head:
            raise ScenarioError(1, f"{key!r} is missing")
    columns = _columns(head["regions"])
    only = head.get("simulator only")
    script = Script(
        about=_text(head["about"], "about"),
        source=_text(head["source"], "source"),
        columns=columns,
        settings=_settings(head.get("settings")),
        simulator_only="" if only is None else _text(only, "simulator only"),
        rows=_Rows(columns).parse(head["rows"]),
    )
    _require_reason(script)
    return script


def _require_reason(script: Script) -> None:
    """Check that the head admits a step that no live node can do."""
    for row in script.rows:
        if isinstance(row.step, Skew) and not script.simulator_only:
            raise ScenarioError(
                row.line,
                "'skew' moves a clock, which live nodes do not let us: add 'simulator only'",
            )


# --- Head -------------------------------------------------------------------------------------


def _columns(node: yaml.Node) -> dict[str, RegionId]:
    columns: dict[str, RegionId] = {}
    for name, value in _mapping(node, "regions").items():
        number = _integer(value, f"region {name!r}")
        if not 1 <= number <= REGION_MAX:
            raise ScenarioError(_line(value), f"a region number is from 1 to {REGION_MAX}")
        if name in _STEPS + _REMARKS:
            raise ScenarioError(_line(value), f"no region can be called {name!r}")
        if number in columns.values():
            raise ScenarioError(_line(value), f"region {number} has two columns")
        columns[name] = RegionId(number)
    if not columns:
        raise ScenarioError(_line(node), "'regions' names none")
    return columns


def _settings(node: yaml.Node | None) -> Settings:
    if node is None:
        return Settings()
    given = _mapping(node, "settings", allowed=_SETTINGS)
    modes = {mode.value: mode for mode in IdMode}
    id_mode = IdMode.STRICT
    if "id_mode" in given:
        id_mode = modes[_one_of(given["id_mode"], "id_mode", modes)]
    implicit = "mkstream" in given and (
        _one_of(given["mkstream"], "mkstream", ("explicit", "implicit")) == "implicit"
    )
    actions = {action.value: action for action in LagAction}
    lag_action = LagAction.WARN
    if _LAG_ACTION in given:
        lag_action = actions[_one_of(given[_LAG_ACTION], _LAG_ACTION, actions)]
    xread_modes = {mode.value: mode for mode in XreadMode}
    xread_mode = XreadMode.BY_ID
    if "xread" in given:
        xread_mode = xread_modes[_one_of(given["xread"], "xread", xread_modes)]
    return Settings(
        id_mode,
        implicit,
        _bound(given, _LAG_EFFECTS),
        _bound(given, _LAG_MS),
        lag_action,
        xread_mode,
    )


def _bound(given: Mapping[str, yaml.Node], name: str) -> int:
    """A bound that is 0, none, or more."""
    if name not in given:
        return 0
    bound = _integer(given[name], f"{name!r}")
    if bound < 0:
        raise ScenarioError(_line(given[name]), f"{name!r} is 0 (no bound) or more")
    return bound


# --- Rows -------------------------------------------------------------------------------------


class _Rows:
    """Parses rows, knowing the columns."""

    def __init__(self, columns: Mapping[str, RegionId]) -> None:
        self._columns = columns
        self._steps: dict[str, Callable[[yaml.Node], Step]] = {
            "sync": self._sync,
            "partition": self._partition,
            "heal": self._heal,
            "crash": lambda node: Crash(self._region(node)),
            "restart": lambda node: Restart(self._region(node)),
            "skew": lambda node: Skew(self._per_region(node, "skew")),
            "wait": self._wait,
        }
        assert tuple(self._steps) == _STEPS

    def parse(self, node: yaml.Node) -> tuple[Row, ...]:
        rows = _sequence(node, "rows")
        if not rows:
            raise ScenarioError(_line(node), "'rows' has none")
        return tuple(self._row(row, f"t{number}") for number, row in enumerate(rows, start=1))

    def _row(self, node: yaml.Node, label: str) -> Row:
        if isinstance(node, yaml.ScalarNode):
            # `- sync` and `- heal` need no more than their name.
            step = _one_of(node, "a row", ("sync", "heal"))
            return Row(_line(node), label, self._bare(step), {})
        allowed = (*self._columns, *_STEPS, *_REMARKS)
        given = _mapping(node, "a row", allowed=allowed)
        return Row(
            line=_line(node),
            label=_text(given["t"], "t") if "t" in given else label,
            step=self._step(node, given),
            clocks=self._clocks(given["at"]) if "at" in given else {},
            explain=_text(given["explain"], "explain") if "explain" in given else "",
        )

    def _bare(self, name: str) -> Step:
        return Heal() if name == "heal" else Sync(tuple(self._columns))

    def _step(self, node: yaml.Node, given: Mapping[str, yaml.Node]) -> Step | None:
        steps = [name for name in given if name in _STEPS]
        cells = {name: self._cell(cell) for name, cell in given.items() if name in self._columns}
        if len(steps) + bool(cells) > 1:
            raise ScenarioError(_line(node), "a row holds commands or one step, not both")
        if steps:
            return self._steps[steps[0]](given[steps[0]])
        if cells:
            return Calls(cells)
        if "at" not in given:
            raise ScenarioError(_line(node), "nothing happens in this row")
        return None

    def _cell(self, node: yaml.Node) -> tuple[Call, ...]:
        if isinstance(node, yaml.SequenceNode):
            return tuple(_call(item) for item in _sequence(node, "a cell"))
        return (_call(node),)

    def _sync(self, node: yaml.Node) -> Sync:
        if _is_empty(node):
            return Sync(tuple(self._columns))
        regions = tuple(self._region(item) for item in _sequence(node, "sync"))
        if len(set(regions)) < 2:
            raise ScenarioError(_line(node), "'sync' needs two regions, or none for all")
        return Sync(regions)

    def _partition(self, node: yaml.Node) -> Partition:
        pairs = []
        for item in _sequence(node, "partition"):
            pair = [self._region(end) for end in _sequence(item, "a pair of regions")]
            if len(set(pair)) != 2:
                raise ScenarioError(_line(item), "a link has two ends: [r1, r2]")
            pairs.append((pair[0], pair[1]))
        return Partition(tuple(pairs))

    def _heal(self, node: yaml.Node) -> Heal:
        if not _is_empty(node):
            raise ScenarioError(_line(node), "'heal' mends all links and takes no value")
        return Heal()

    def _wait(self, node: yaml.Node) -> Wait:
        ms = _integer(node, "wait")
        if ms < 0:
            raise ScenarioError(_line(node), "time does not go back: 'wait' is in ms, 0 or more")
        return Wait(Millis(ms))

    def _clocks(self, node: yaml.Node) -> dict[str, Millis]:
        """One time for all regions, or a time per region, in ms."""
        if isinstance(node, yaml.ScalarNode):
            ms = Millis(_integer(node, "at"))
            return dict.fromkeys(self._columns, ms)
        return {name: Millis(ms) for name, ms in self._per_region(node, "at").items()}

    def _per_region(self, node: yaml.Node, what: str) -> dict[str, int]:
        given = _mapping(node, what, allowed=tuple(self._columns))
        return {name: _integer(value, f"{what} of {name!r}") for name, value in given.items()}

    def _region(self, node: yaml.Node) -> str:
        return _one_of(node, "a region", self._columns)


def _call(node: yaml.Node) -> Call:
    """``[(client)] [COMMAND …] [-> expectation]``."""
    text = _text(node, "a command")
    line = _line(node)
    client = ""
    if (named := _CLIENT.match(text)) is not None:
        client = named["name"]
        text = text[named.end() :]
    expected: Expected | None = None
    expected_text = ""
    if (arrow := _ARROW.search(text)) is not None:
        text, expected_text = text[: arrow.start()], text[arrow.end() :].strip()
        try:
            expected = parse_expected(expected_text)
        except NotationError as error:
            raise ScenarioError(line, f"bad expectation: {error}") from error
    try:
        argv = tuple(shlex.split(text))
    except ValueError as error:
        raise ScenarioError(line, f"bad command: {error}") from error
    if not argv and expected is None:
        raise ScenarioError(line, "a cell needs a command, or the answer of an earlier one")
    return Call(
        line, node.start_mark.index, client, argv, expected, " ".join(text.split()), expected_text
    )


# --- Nodes ------------------------------------------------------------------------------------


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1


def _mapping(
    node: yaml.Node, what: str, *, allowed: tuple[str, ...] | None = None
) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        raise ScenarioError(_line(node), f"{what} must be a mapping of names to values")
    found: dict[str, yaml.Node] = {}
    for key_node, value in node.value:
        key = _text(key_node, "a key")
        if allowed is not None and key not in allowed:
            raise ScenarioError(
                _line(key_node), f"{what} has no {key!r}; allowed: {', '.join(allowed)}"
            )
        if key in found:
            raise ScenarioError(_line(key_node), f"{key!r} stands twice")
        found[key] = value
    return found


def _sequence(node: yaml.Node, what: str) -> list[yaml.Node]:
    if not isinstance(node, yaml.SequenceNode):
        raise ScenarioError(_line(node), f"{what} must be a list")
    items: list[yaml.Node] = node.value
    return items


def _text(node: yaml.Node, what: str) -> str:
    if not isinstance(node, yaml.ScalarNode) or not node.value.strip():
        raise ScenarioError(_line(node), f"{what} must be text")
    return " ".join(str(node.value).split("\n"))


def _integer(node: yaml.Node, what: str) -> int:
    text = _text(node, what)
    if not re.fullmatch(r"[+-]?\d+", text):
        raise ScenarioError(_line(node), f"{what} must be a whole number, not {text!r}")
    return int(text)


def _one_of(node: yaml.Node, what: str, allowed: Iterable[str]) -> str:
    text = _text(node, what)
    if text not in allowed:
        raise ScenarioError(_line(node), f"{what} is one of {', '.join(allowed)}, not {text!r}")
    return text


def _is_empty(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:null"
