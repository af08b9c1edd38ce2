"""Compares what has no dots: the streams and groups of each region, and the groups' frontiers.

An entry never exists again, so a second look at it decides.  A stream or a group may be created and
deleted between any two looks, and a frontier moves in the meantime.  So these are looked at again
and again, each time when every region has applied what any had shown the time before, until they
agree once.  A difference at every look is not caused by timing.  A frontier also agrees if every
region has reached the furthest frontier of the time before, as it only moves up while its group
exists.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, TypeAlias

from crdtstream.spark.options import ID_MIN, EntryId
from crdtstream.v1 import query_pb2

# Per lane (origin region) the end of the acknowledged run.
Frontier: TypeAlias = Mapping[int, EntryId]
# The groups of a stream.
Groups: TypeAlias = Mapping[bytes, Frontier]
# The streams of one region.
Streams: TypeAlias = Mapping[bytes, Groups]


class Aspect(Enum):
    """Aspect that may differ."""

    STREAM = "stream"
    GROUP = "group"
    FRONTIER = "frontier"


class Subject(NamedTuple):
    """One thing that all regions should have alike; ``group`` is empty of a stream, ``origin`` 0
    where no lane is meant."""

    aspect: Aspect
    key: bytes
    group: bytes = b""
    origin: int = 0


@dataclass(frozen=True, slots=True)
class Differing:
    """A subject that regions have differently; ``has``: what each one has, by region."""

    subject: Subject
    has: Mapping[int, str]


def streams_of(descriptions: Iterable[query_pb2.StreamDescription]) -> Streams:
    """Streams, groups and frontiers that a region said it has."""
    return {
        one.key: {
            group.name: {
                position.lane: EntryId(position.id.ms, position.id.seq)
                for position in group.frontier
            }
            for group in one.groups
        }
        for one in descriptions
    }


def differences(looks: Mapping[int, Streams]) -> dict[Subject, Differing]:
    """Differences between regions that were all looked at."""
    found: dict[Subject, Differing] = {}
    for key in sorted({key for streams in looks.values() for key in streams}):
        _compare_stream(key, looks, found)
    return found


def _compare_stream(
    key: bytes, looks: Mapping[int, Streams], found: dict[Subject, Differing]
) -> None:
    holders = {region: streams[key] for region, streams in looks.items() if key in streams}
    if len(holders) < len(looks):
        _note(found, Subject(Aspect.STREAM, key), _presence(looks, holders))
    for group in sorted({group for groups in holders.values() for group in groups}):
        having = {region: groups[group] for region, groups in holders.items() if group in groups}
        # A stream that is missing as a whole is one difference.
        if len(having) < len(holders):
            _note(found, Subject(Aspect.GROUP, key, group), _presence(holders, having))
        for origin in sorted({origin for frontier in having.values() for origin in frontier}):
            # A lane without entries is reported by some regions, and by others not.
            reached = {
                region: frontier[origin]
                for region, frontier in having.items()
                if origin in frontier
            }
            if len(set(reached.values())) > 1:
                shown = {region: str(entry_id) for region, entry_id in reached.items()}
                _note(found, Subject(Aspect.FRONTIER, key, group, origin), shown)


def _note(found: dict[Subject, Differing], subject: Subject, has: Mapping[int, str]) -> None:
    found[subject] = Differing(subject, has)


def _presence(all_of: Iterable[int], holders: Iterable[int]) -> dict[int, str]:
    there = set(holders)
    return {region: "there" if region in there else "missing" for region in all_of}


def still_differing(
    before: Mapping[int, Streams], now: Mapping[int, Streams], suspects: Iterable[Subject]
) -> dict[Subject, Differing]:
    """Of ``suspects`` those that regions have differently now, too.

    Args:
        before: the look before, of each region; by now every region has applied all
            effects that led to it.
    """
    differ = differences(now)
    return {
        subject: differ[subject]
        for subject in suspects
        if subject in differ and not _caught_up(before, now, subject)
    }


def _caught_up(before: Mapping[int, Streams], now: Mapping[int, Streams], subject: Subject) -> bool:
    """True if a frontier has reached, in every region, the furthest one of the look before."""
    if subject.aspect is not Aspect.FRONTIER:
        return False
    furthest = max(_reached(before, subject), default=ID_MIN)
    return all(reached >= furthest for reached in _reached(now, subject))


def _reached(looks: Mapping[int, Streams], subject: Subject) -> Iterator[EntryId]:
    """Frontiers of the group in the lane, of all regions that have it."""
    for streams in looks.values():
        frontier = streams.get(subject.key, {}).get(subject.group, {})
        if subject.origin in frontier:
            yield frontier[subject.origin]
