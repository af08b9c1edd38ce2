"""Drill files: YAML to a Drill, every problem with its line."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from crdtstream.drill.drill import Drill, Inconsistency, InconsistentError, Place
from crdtstream.local.regions import OWN_KEYS, Settings
from crdtstream.settings.node_settings import SettingsError, make_settings

FILE_BYTES_MAX: Final = 1 << 20
# The drills of the project, and the folder that has them.
BUNDLED: Final = Path("scenarios/drills")
# Folder of the project's own files: in its sources, or in the package that was installed.
_HERE: Final = Path(__file__).resolve().parent


def own_file(name: str) -> Path:
    """A file or folder of the project, by its path in the sources, from any working directory."""
    in_sources = _HERE.parents[1] / name
    return in_sources if in_sources.exists() else _HERE / "bundled" / name


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem, and its line, from 1."""

    line: int
    text: str


class DrillError(Exception):
    """The file is no drill.

    Attributes:
        problems: in the order of their lines; never empty.
    """

    def __init__(self, path: Path, problems: Sequence[Problem]) -> None:
        assert problems
        super().__init__("\n".join(f"{path}:{each.line}: {each.text}" for each in problems))
        self.path = path
        self.problems = tuple(problems)


def load(path: Path) -> Drill:
    """The drill of a file.

    Raises:
        DrillError: it is none; reports all that is wrong with it.
    """
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise DrillError(path, [Problem(1, f"cannot be read: {error.strerror}")]) from error
    if len(content) > FILE_BYTES_MAX:
        raise DrillError(path, [Problem(1, f"more than {FILE_BYTES_MAX} bytes: no drill is")])
    try:
        root = yaml.compose(content, Loader=yaml.SafeLoader)
        data = yaml.safe_load(content)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = 1 if mark is None else mark.line + 1
        raise DrillError(path, [Problem(line, f"not YAML: {error.problem}")]) from error
    except (yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise DrillError(path, [Problem(1, f"not YAML: {error}")]) from error
    if root is None or not isinstance(data, dict):
        raise DrillError(path, [Problem(1, "not a mapping with about, load and steps")])
    try:
        drill = Drill.model_validate(data)
    except ValidationError as error:
        # A list whose only item is wrong is not empty besides.
        errors = error.errors(include_url=False)
        wrong = {details["loc"][0] for details in errors if len(details["loc"]) > 1}
        found = [
            problem
            for details in errors
            if details["type"] != "too_short"
            or len(details["loc"]) > 1
            or details["loc"][0] not in wrong
            for problem in _problems(root, details)
        ]
        raise DrillError(path, sorted(found, key=lambda each: each.line)) from error
    if found := [_problem(root, place, text) for place, text in _settings_problems(drill)]:
        raise DrillError(path, found)
    return drill


def find(names: Iterable[str], folder: Path) -> list[tuple[str, Path]]:
    """The files that names mean: a path, the name of a drill in the folder, or ``all``.

    Raises:
        DrillError: a drill does not exist; the text names those that do.
    """
    there = {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    found: dict[str, Path] = {}
    for name in names:
        if name == "all":
            found |= there
        elif name in there:
            found[name] = there[name]
        elif Path(name).is_file():
            found[Path(name).stem] = Path(name)
        else:
            known = ", ".join(there) or f"none in {folder}"
            raise DrillError(
                Path(name), [Problem(1, f"no such file, and no such drill; there are: {known}")]
            )
    return list(found.items())


def _settings_problems(drill: Drill) -> Iterator[Inconsistency]:
    """Settings that a node would refuse at its start."""
    given: list[tuple[Place, Settings]] = [
        (("settings",), drill.settings),
        *((("settings_of", str(region)), own) for region, own in drill.settings_of.items()),
    ]
    for place, settings in given:
        for key in sorted(set(OWN_KEYS) & set(settings)):
            yield place, f"{key}: the drill gives each region its own"
        theirs = {key: value for key, value in settings.items() if key not in OWN_KEYS}
        try:
            make_settings({"region": 1, "dir": ".", **theirs}, source="")
        except SettingsError as error:
            for problem in error.problems:
                yield place, problem


def _problems(root: yaml.Node, details: ErrorDetails) -> list[Problem]:
    """Places of the errors in the file, and their texts."""
    context: dict[str, Any] = details.get("ctx", {})
    error = context.get("error")
    if isinstance(error, InconsistentError):
        return [_problem(root, place, text) for place, text in error.problems]
    text = details["msg"].removeprefix("Value error, ")
    match details["type"]:
        case "missing":
            text = "is missing"
        case "extra_forbidden":
            text = "no such key here"
        case "union_tag_invalid":
            text = f"no {context.get('discriminator')} {context.get('tag')!r}; there are:"
            text += f" {context.get('expected_tags')}"
    return [_problem(root, details["loc"], text)]


def _problem(root: yaml.Node, place: Place, text: str) -> Problem:
    node: yaml.Node = root
    words: list[str] = []
    for step in place:
        below = _below(node, step)
        # Names of a union's members are in the place, and not in the file; a key that is missing is
        # not in it either.
        if below is not None:
            node = below
        elif step != place[-1]:
            continue
        words.append(str(step + 1 if isinstance(step, int) else step))
    where = ".".join(words)
    return Problem(node.start_mark.line + 1, f"{where}: {text}" if where else text)


def _below(node: yaml.Node, step: int | str) -> yaml.Node | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            if str(key.value) == str(step):
                return value if not isinstance(value, yaml.ScalarNode) else _at(key, value)
    elif isinstance(node, yaml.SequenceNode) and isinstance(step, int) and step < len(node.value):
        found: yaml.Node = node.value[step]
        return found
    return None


def _at(key: yaml.Node, value: yaml.ScalarNode) -> yaml.ScalarNode:
    """The value, at the line of its key: a folded text begins below it."""
    return yaml.ScalarNode(value.tag, value.value, key.start_mark, value.end_mark)
