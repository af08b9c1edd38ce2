"""Content of a scenario file: its head and its rows, as data.

A row is either commands, at most one list per region, or one step that happens to the regions and
their network.  Regions are named here by the column names of the file; `Script.columns` has the
region's number.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from crdtstream.core.ids import IdMode, Millis, RegionId
from crdtstream.core.xread_mode import XreadMode
from crdtstream.region.staleness import LagAction
from crdtstream.scenario.expected import Expected


@dataclass(frozen=True, slots=True)
class Settings:
    """Tunables that hold while the scenario runs.

    Attributes:
        implicit_mkstream: XGROUP CREATE makes a missing stream without MKSTREAM.
        lag_effects_max, lag_ms_max, lag_action: the bounds on replication lag, 0: none, and what
            happens there.
        xread_mode: the meaning of an ID to XREAD.
    """

    id_mode: IdMode = IdMode.STRICT
    implicit_mkstream: bool = False
    lag_effects_max: int = 0
    lag_ms_max: int = 0
    lag_action: LagAction = LagAction.WARN
    xread_mode: XreadMode = XreadMode.BY_ID


@dataclass(frozen=True, slots=True)
class Call:
    """One command of one client, or only the answer that it has been waiting for.

    Attributes:
        client: which connection to the region; the unnamed one is "".
        offset: where it stands in the file, in characters: tells equal calls apart.
        argv: the command; empty: the answer of the command sent earlier.
        expected: None if any reply but an error will do.
        text: the command as the file writes it, without client and expectation.
        expected_text: the same of the expectation; "" if there is none.
    """

    line: int
    offset: int
    client: str
    argv: tuple[str, ...]
    expected: Expected | None
    text: str
    expected_text: str


@dataclass(frozen=True, slots=True)
class Calls:
    """Commands, region by region in the order of the file."""

    cells: Mapping[str, tuple[Call, ...]]


@dataclass(frozen=True, slots=True)
class Sync:
    """These regions exchange all they have, until their version vectors are equal."""

    regions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Partition:
    """Links that carry nothing from now on, in both directions; syncs do without them."""

    pairs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Heal:
    """All links work again."""


@dataclass(frozen=True, slots=True)
class Crash:
    """The region's process ends at once; it keeps what its log holds."""

    region: str


@dataclass(frozen=True, slots=True)
class Restart:
    """The crashed region is restarted from its log."""

    region: str


@dataclass(frozen=True, slots=True)
class Skew:
    """These regions' clocks jump, forth or (negative) back."""

    by_ms: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Wait:
    """Time passes, in all regions."""

    ms: Millis


Step: TypeAlias = Calls | Sync | Partition | Heal | Crash | Restart | Skew | Wait


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Attributes:
        label: text in the time column.
        clocks: times to which the regions' clocks are set before the step.  Live nodes have real
            clocks and ignore it.
        explain: a remark for the reader.
        step: None in a row that only sets clocks.
    """

    line: int
    label: str
    step: Step | None
    clocks: Mapping[str, Millis]
    explain: str = ""


@dataclass(frozen=True, slots=True)
class Script:
    """A whole file.

    Attributes:
        columns: the regions: column name to region number, in the order of the file.
        simulator_only: why it cannot run on live nodes; "" if it can.
    """

    about: str
    source: str
    columns: Mapping[str, RegionId]
    rows: tuple[Row, ...]
    settings: Settings = field(default_factory=Settings)
    simulator_only: str = ""
