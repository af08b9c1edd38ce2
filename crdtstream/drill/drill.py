"""A drill: regions, load, faults, and bounds that must hold, as in its YAML file.

Times are seconds since the load began.  A fault lasts ``lasts`` seconds and is then taken back;
without it, until the load ends.  Unknown keys are refused: a misspelt fault is no fault.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

REGIONS_MAX: Final = 9
SECONDS_MAX: Final = 3_600
HERD_MAX: Final = 50_000

Seconds = Annotated[float, Field(ge=0, le=SECONDS_MAX)]
RegionNumber = Annotated[int, Field(ge=1, le=REGIONS_MAX)]
Regions = Annotated[tuple[RegionNumber, ...], Field(min_length=1)]
LinkEnds = Annotated[
    tuple[RegionNumber, RegionNumber],
    Field(description="[puller, peer]: the region that pulls, and the one that it pulls from."),
]


# A place in the file: keys, and indexes of lists from 0.
Place = tuple[str | int, ...]
Inconsistency = tuple[Place, str]


class InconsistentError(ValueError):
    """Parts of a drill that do not fit each other.

    Attributes:
        problems: each with its place.
    """

    def __init__(self, problems: Sequence[Inconsistency]) -> None:
        super().__init__("; ".join(f"{place}: {text}" for place, text in problems))
        self.problems = tuple(problems)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


# --- Load -------------------------------------------------------------------------------------


class Producers(_Part):
    """Clients that add entries at a steady rate, whatever the answers: an open loop.

    Attributes:
        kind: ``plain``: XADD, never sent twice.  ``idempotent``: XADD IDMP, sent again until it is
            answered.  ``multidb``: XADD IDMP through redis-py's MultiDBClient, which fails over by
            itself.
        region: number of their home.
        clients: number of clients.
        per_second: entries a second of each.
        moves: they move to another region when theirs does not answer, and back when it does.
        health_check: of ``multidb``.
    """

    kind: Literal["plain", "idempotent", "multidb"]
    region: RegionNumber
    clients: int = Field(default=1, ge=1, le=1_000)
    per_second: float = Field(default=20, gt=0, le=10_000)
    moves: bool = True
    health_check: Literal["lag", "ping"] = "lag"


class Consumers(_Part):
    """Clients of a group: XREADGROUP, XACK, and XAUTOCLAIM of what is idle for too long.

    Attributes:
        claim_after_ms: idle time after which an entry is taken over.
    """

    kind: Literal["consumer"]
    group: str
    region: RegionNumber
    clients: int = Field(default=1, ge=1, le=1_000)
    moves: bool = True
    claim_after_ms: int = Field(default=2_000, ge=100, le=600_000)


class Readers(_Part):
    """Clients without a group: XREAD from the last ID that they got, or CRDT.XREAD's cursor."""

    kind: Literal["xread", "crdt.xread"]
    region: RegionNumber
    clients: int = Field(default=1, ge=1, le=1_000)
    moves: bool = True


class Herd(_Part):
    """Clients that connect before the load and do nothing until their way is cut.

    When it is whole again all connect at once, and each adds one entry.

    Attributes:
        region: all are its clients.
        clients: number of clients.
    """

    kind: Literal["herd"]
    region: RegionNumber
    clients: int = Field(ge=1, le=HERD_MAX)


LoadItem = Annotated[Producers | Consumers | Readers | Herd, Field(discriminator="kind")]


class Group(_Part):
    """A consumer group of every stream of the drill.

    Attributes:
        mode: ``at-least-once``, ``home`` (of region ``home``) or ``partitioned``.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    mode: Literal["at-least-once", "home", "partitioned"] = "at-least-once"
    home: RegionNumber | None = None

    @model_validator(mode="after")
    def _home_is_named(self) -> Self:
        if (self.mode == "home") != (self.home is not None):
            raise ValueError("'home' names a region exactly if the mode is 'home'")
        return self


# --- Steps ------------------------------------------------------------------------------------


class _Fault(_Part):
    at: Seconds
    lasts: Seconds | None = None


class Partition(_Fault):
    """Links between the sides are cut, in both directions; clients still reach their region."""

    do: Literal["partition"]
    sides: tuple[Regions, Regions]


class OneWayPartition(_Fault):
    """One directed link is cut: ``puller`` hears nothing of ``peer``, which still hears it."""

    do: Literal["one-way-partition"]
    link: LinkEnds


class SlowLinks(_Fault):
    """Latency on links, half of it each way.

    Attributes:
        links: empty: all.
        jitter_ms: each way, more or less.
        clients: the ways of clients are as slow.
    """

    do: Literal["slow-links"]
    links: tuple[LinkEnds, ...] = ()
    rtt_ms: int = Field(ge=1, le=60_000)
    jitter_ms: int = Field(default=0, ge=0, le=60_000)
    clients: bool = False


class ThinLinks(_Fault):
    """Bandwidth of links, in KB a second and direction."""

    do: Literal["thin-links"]
    links: tuple[LinkEnds, ...] = ()
    kb_per_second: int = Field(ge=1, le=1_000_000)


class LossyLinks(_Fault):
    """Links on which connections are reset, sliced and silenced, one after the other.

    Attributes:
        every_ms: time that each of the three lasts.
    """

    do: Literal["lossy-links"]
    links: tuple[LinkEnds, ...] = ()
    every_ms: int = Field(default=700, ge=100, le=60_000)


class FlappingLinks(_Fault):
    """Links that go down and up."""

    do: Literal["flapping-links"]
    links: tuple[LinkEnds, ...] = ()
    down_ms: int = Field(ge=50, le=60_000)
    up_ms: int = Field(ge=50, le=60_000)


class Kill(_Fault):
    """kill -9 of a region's process; taken back by starting it again.

    Attributes:
        disk: ``lost``: its folder is removed too, and it begins with an empty one.
    """

    do: Literal["kill"]
    region: RegionNumber
    disk: Literal["kept", "lost"] = "kept"


class Freeze(_Fault):
    """SIGSTOP: connections stay open, and the region does not answer; taken back by SIGCONT."""

    do: Literal["freeze"]
    region: RegionNumber


class RollingRestart(_Part):
    """Regions stop in good order and start again, one after the other."""

    do: Literal["rolling-restart"]
    at: Seconds
    regions: Regions


class ClockSkew(_Fault):
    """A region restarts with its clock off; taken back by a restart with the right time."""

    do: Literal["clock-skew"]
    region: RegionNumber
    offset_ms: int = Field(ge=-10 * 365 * 86_400_000, le=10 * 365 * 86_400_000)


class FullDisk(_Fault):
    """A region's process may write nothing beyond the headroom of each file (RLIMIT_FSIZE)."""

    do: Literal["full-disk"]
    region: RegionNumber
    headroom_bytes: int = Field(default=64 << 10, ge=0, le=1 << 40)


class CutClients(_Fault):
    """The ways of a region's clients are cut, its links to other regions are not."""

    do: Literal["cut-clients"]
    region: RegionNumber


class Command(_Part):
    """No fault: a Redis command that an operator runs in a region, directly.

    Attributes:
        words: the command; ``{stream}``: it is run for every stream of the drill.
        may_fail: an error reply is a note, not the end of the drill.
    """

    do: Literal["command"]
    at: Seconds
    region: RegionNumber
    words: tuple[str, ...] = Field(min_length=1)
    may_fail: bool = False


Fault = (
    Partition
    | OneWayPartition
    | SlowLinks
    | ThinLinks
    | LossyLinks
    | FlappingLinks
    | Kill
    | Freeze
    | RollingRestart
    | ClockSkew
    | FullDisk
    | CutClients
)
Step = Fault | Command


# --- What must hold ---------------------------------------------------------------------------


class MustHold(_Part):
    """Bounds of the verdict.  A bound that is left out is not judged, except those of every drill.

    Attributes:
        lost: acknowledged entries that may be lost at most.  0, and only a region that loses its
            disk may ask for more.
        never_delivered: entries that no consumer of a group got.
        skipped_by_cursors: entries that a CRDT.XREAD reader did not get.
        repeated_idempotent: entries that an idempotent row left twice in a stream.
        unanswered: rows that were sent again and again, and never acknowledged, of all producers
            except plain ones.
        out_of_order: first deliveries in one region behind a later entry of the same producer.
        again: reasons for which an entry may be delivered more than once; None: all may.
        converges_within_s: time from the end of the faults, and from the end of the load, until all
            regions are equal.
        recovers_within_s: RTO of the clients that may move.
        hit_at_least: number of clients that must have felt the fault: a fault that none feels shows
            nothing.
        refused_at_least: number of requests that must have been refused: for a bound that is to be
            seen.
        taken_over_at_least: number of times that a region must have taken over the state of another
            one, as no log had what it lacked.
    """

    lost: int = Field(default=0, ge=0)
    never_delivered: int = Field(default=0, ge=0)
    skipped_by_cursors: int = Field(default=0, ge=0)
    repeated_idempotent: int = Field(default=0, ge=0)
    unanswered: int = Field(default=0, ge=0)
    out_of_order: int = Field(default=0, ge=0)
    again: tuple[Literal["claimed", "other region"], ...] | None = None
    converges_within_s: Seconds = 30.0
    recovers_within_s: Seconds | None = None
    hit_at_least: int = Field(default=0, ge=0)
    refused_at_least: int = Field(default=0, ge=0)
    taken_over_at_least: int = Field(default=0, ge=0)


class Drill(_Part):
    """One drill.

    Attributes:
        about: what it shows, a sentence or two.
        seconds: time for which producers run.
        regions: 1 to this number.
        settings: of every node, as in its TOML file; tables are mappings.
        settings_of: of single regions, besides.
        streams: number of streams; producers take them in turn.
        entry_bytes: of each entry's payload.
        steps: faults and commands.
        alerts: Prometheus alerts that must fire; see deploy/alerts.yml.  Empty: none that is
            critical may fire.  Left out: not judged.
    """

    about: str = Field(min_length=10)
    seconds: float = Field(default=12, ge=2, le=SECONDS_MAX)
    regions: int = Field(default=3, ge=1, le=REGIONS_MAX)
    settings: dict[str, str | int | dict[str, str | int]] = {}
    settings_of: dict[RegionNumber, dict[str, str | int | dict[str, str | int]]] = {}
    streams: int = Field(default=2, ge=1, le=1_000)
    entry_bytes: int = Field(default=64, ge=1, le=1 << 20)
    groups: tuple[Group, ...] = ()
    load: tuple[LoadItem, ...] = Field(min_length=1)
    steps: tuple[Annotated[Step, Field(discriminator="do")], ...] = Field(min_length=1)
    must_hold: MustHold = MustHold()
    alerts: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        problems = [
            *self._unknown_regions(),
            *self._unknown_groups(),
            *self._late_steps(),
            *self._faults_that_are_none(),
            *self._overlapping_steps(),
            *self._judgement_problems(),
        ]
        if problems:
            raise InconsistentError(problems)
        return self

    def _unknown_regions(self) -> Iterator[Inconsistency]:
        """Regions that are named and do not exist."""
        named: list[tuple[Place, int]] = [
            *((("load", at), item.region) for at, item in enumerate(self.load)),
            *((("groups", at), group.home or 1) for at, group in enumerate(self.groups)),
            *((("settings_of", str(region)), region) for region in self.settings_of),
        ]
        for at, step in enumerate(self.steps):
            named += [(("steps", at), region) for region in regions_of(step)]
        for place, region in named:
            if region > self.regions:
                yield place, f"there is no region {region}; regions is {self.regions}"

    def _unknown_groups(self) -> Iterator[Inconsistency]:
        known = {group.name for group in self.groups}
        for at, item in enumerate(self.load):
            if isinstance(item, Consumers) and item.group not in known:
                names = ", ".join(sorted(known)) or "none"
                yield ("load", at), f"no group {item.group!r}; groups names {names}"

    def _late_steps(self) -> Iterator[Inconsistency]:
        for at, step in enumerate(self.steps):
            if step.at >= self.seconds:
                ended = f"at {step.at:g} s the load has ended (seconds is {self.seconds:g})"
                yield ("steps", at), ended

    def _faults_that_are_none(self) -> Iterator[Inconsistency]:
        """Links from a region to itself."""
        for at, step in enumerate(self.steps):
            match step:
                case Partition(sides=(one, other)):
                    links = [(region, region) for region in sorted(set(one) & set(other))]
                case OneWayPartition(link=link):
                    links = [link]
                case SlowLinks() | ThinLinks() | LossyLinks() | FlappingLinks():
                    links = list(step.links)
                case _:
                    links = []
            for a, b in links:
                if a == b:
                    yield ("steps", at), f"region {a} has no link to itself"

    def _overlapping_steps(self) -> Iterator[Inconsistency]:
        """Steps on a process that another step has ended: freezing, restarting, ending."""
        busy: list[tuple[int, float, float]] = []
        for at, step in enumerate(self.steps):
            if not isinstance(step, Kill | Freeze | RollingRestart | ClockSkew | FullDisk):
                continue
            lasts = None if isinstance(step, RollingRestart) else step.lasts
            ends = self.seconds if lasts is None else step.at + lasts
            for region in regions_of(step):
                if any(r == region and begin < ends and step.at < end for r, begin, end in busy):
                    yield ("steps", at), f"region {region} is still in the hands of another step"
                busy.append((region, step.at, ends))

    def _judgement_problems(self) -> Iterator[Inconsistency]:
        loses_disk = any(isinstance(step, Kill) and step.disk == "lost" for step in self.steps)
        if self.must_hold.lost and not loses_disk:
            only = "only with a step that loses a disk may entries be lost"
            yield ("must_hold", "lost"), only
        if not any(isinstance(item, Producers | Herd) for item in self.load):
            yield ("load",), "nobody adds entries, so nothing could be lost"


def regions_of(step: Step) -> tuple[int, ...]:
    """The regions that a step names, links' ends included."""
    match step:
        case Partition(sides=sides):
            return sides[0] + sides[1]
        case OneWayPartition(link=link):
            return link
        case SlowLinks() | ThinLinks() | LossyLinks() | FlappingLinks():
            return tuple(region for link in step.links for region in link)
        case RollingRestart(regions=regions):
            return regions
        case _:
            return (step.region,)


def described(step: Step) -> str:
    """The step in a few words, for marks."""
    match step:
        case Partition(sides=(one, other)):
            return f"partition {_numbers(one)} | {_numbers(other)}"
        case OneWayPartition(link=(puller, peer)):
            return f"one way: region {puller} hears nothing of {peer}"
        case SlowLinks():
            return f"{_links(step.links)}: {step.rtt_ms} ms RTT ± {step.jitter_ms}"
        case ThinLinks():
            return f"{_links(step.links)}: {step.kb_per_second} KB/s"
        case LossyLinks():
            return f"{_links(step.links)}: resets, slices, silence"
        case FlappingLinks():
            return f"{_links(step.links)}: {step.down_ms} ms down, {step.up_ms} ms up"
        case Kill():
            return f"region {step.region}: kill -9" + (", disk lost" * (step.disk == "lost"))
        case Freeze():
            return f"region {step.region}: SIGSTOP"
        case RollingRestart():
            return f"rolling restart of {_numbers(step.regions)}"
        case ClockSkew():
            return f"region {step.region}: clock off by {step.offset_ms / 3_600_000:+.1f} h"
        case FullDisk():
            return f"region {step.region}: disk full"
        case CutClients():
            return f"region {step.region}: its clients are cut off"
        case Command():
            return f"region {step.region}: {' '.join(step.words)}"


def _numbers(regions: tuple[int, ...]) -> str:
    return ", ".join(map(str, regions))


def _links(links: tuple[LinkEnds, ...]) -> str:
    return "links " + ", ".join(f"{b}→{a}" for a, b in links) if links else "all links"
