"""Compares what has no dots: the streams and groups of each region, and the groups' frontiers.

An entry never exists again, so a second look at it decides.  A stream or a group may be created and
deleted between any two looks, and a frontier moves in the meantime.  So these are looked at again
and again, each time when every region has applied what any had shown the time before, until they
agree once.  A difference at every look is not caused by timing.  A frontier also agrees if every
region has reached the furthest frontier of the time before, as it only moves up while its group
exists.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import TypeAlias

from crdtstream.spark.jobs.audit_findings import ByRegion, Kind, Subject
from crdtstream.spark.options import ID_MIN, EntryId
from crdtstream.v1 import query_pb2

# What one region has: of a frontier the end of the acknowledged run, else ``ID_MIN``.
Facts: TypeAlias = Mapping[Subject, EntryId]


def facts_of(descriptions: Iterable[query_pb2.StreamDescription]) -> Facts:
    """Streams, groups and frontiers that a region said it has."""
    facts = {}
    for one in descriptions:
        facts[Subject(Kind.STREAM, one.key)] = ID_MIN
        for group in one.groups:
            facts[Subject(Kind.GROUP, one.key, group.name)] = ID_MIN
            for position in group.frontier:
                reached = EntryId(position.id.ms, position.id.seq)
                facts[Subject(Kind.FRONTIER, one.key, group.name, position.lane)] = reached
    return facts


def differences(looks: Mapping[int, Facts]) -> dict[Subject, ByRegion]:
    """Differences between regions that were all looked at.

    A stream or a group that is missing as a whole is one difference.  A lane without entries is
    reported by some regions and not by others, which is none.
    """
    found: dict[Subject, ByRegion] = {}
    for subject in dict.fromkeys(subject for facts in looks.values() for subject in facts):
        has = {region: facts.get(subject) for region, facts in looks.items()}
        if subject.kind is Kind.GROUP:
            stream = Subject(Kind.STREAM, subject.key)
            has = {region: what for region, what in has.items() if stream in looks[region]}
        elif subject.kind is Kind.FRONTIER:
            has = {region: what for region, what in has.items() if what is not None}
        if len(set(has.values())) > 1:
            found[subject] = has
    return found


def still_differing(
    before: Mapping[int, Facts], now: Mapping[int, Facts], suspects: Collection[Subject]
) -> dict[Subject, ByRegion]:
    """Of ``suspects`` those that regions have differently now, too.

    Args:
        before: the look before, of each region; by now every region has applied all
            effects that led to it.
    """
    return {
        subject: has
        for subject, has in differences(now).items()
        if subject in suspects and not _caught_up(before, subject, has)
    }


def _caught_up(before: Mapping[int, Facts], subject: Subject, has: ByRegion) -> bool:
    """True if a frontier has reached, in every region, the furthest one of the look before."""
    if subject.kind is not Kind.FRONTIER:
        return False
    furthest = max(facts.get(subject, ID_MIN) for facts in before.values())
    return all(reached is not None and reached >= furthest for reached in has.values())
