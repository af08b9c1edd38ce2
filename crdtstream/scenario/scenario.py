"""A scenario: the script of one file, and the way to run it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from crdtstream.core.ids import RegionId
from crdtstream.scenario.outcome import Outcome
from crdtstream.scenario.parse import ScenarioError, parse
from crdtstream.scenario.rows import Script
from crdtstream.scenario.runner import run
from crdtstream.scenario.target import Target

# A folder of this name holds failover drills, which are another kind of file.
DRILLS: Final = "drills"


def scenario_files(folder: Path) -> list[Path]:
    """The files of scenarios in a folder and those below it, by name."""
    return sorted(
        path
        for path in folder.rglob("*.yaml")
        if DRILLS not in path.relative_to(folder.parent).parent.parts
    )


@dataclass(frozen=True, slots=True)
class Scenario:
    """The scenario in one file."""

    script: Script

    @classmethod
    def load(cls, path: Path) -> "Scenario":
        """Read a file.

        Raises:
            ScenarioError: it is no scenario, or no text.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ScenarioError(1, f"not UTF-8: {error}") from error
        except OSError as error:
            raise ScenarioError(1, f"cannot be read: {error.strerror}") from error
        return cls(parse(text))

    @property
    def regions(self) -> tuple[RegionId, ...]:
        return tuple(self.script.columns.values())

    def run(self, target: Target) -> Outcome:
        """Run it; the outcome holds every answer and what differs."""
        return run(self.script, target)
