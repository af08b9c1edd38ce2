"""Facts that a region knows, to be compared: with a restart, with the model, with a look before."""

from dataclasses import dataclass
from typing import Any

from crdtstream.core.clock import VersionVector
from crdtstream.core.effects import IdempotentId
from crdtstream.core.ids import ID_MAX, ID_MIN
from crdtstream.core.replica import Replica
from crdtstream.sim.model import Issued, recognised


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts that a region knows, replicated and local."""

    vv: VersionVector
    digest: bytes
    local: object


def facts_of(replica: Replica) -> Facts:
    """Facts of a replica, asked without a client, so that nothing changes."""
    return Facts(dict(replica.vv), replica.digest(), local_facts(replica))


def local_facts(replica: Replica) -> object:
    """Facts that a region knows of its own reading."""
    found = []
    for key in replica.keys.known():
        stream = replica.keys.held_stream(key)
        if stream is None:
            continue
        for name, group in sorted(stream.groups.items()):
            consumers = sorted(group.pel.consumers)
            for lane in sorted(stream.lanes):
                progress = group.progress(lane)
                pending = [
                    (
                        nack.id,
                        nack.consumer and nack.consumer.name,
                        nack.delivered_ms,
                        nack.delivery_count,
                    )
                    for nack in progress.pel.nacks()
                ]
                found.append((key, name, consumers, lane, progress.last_delivered, pending))
    return found


def wrong_retries(replica: Replica, applied: list[Issued], key: bytes) -> list[str]:
    """Retries that a window takes for another append than the model does (``rules`` 20).

    A window may have forgotten an id, by its size and age.
    """
    stream = replica._streams.get(key)
    if stream is None or stream.window is None:
        return []
    expected = recognised(applied, key)
    return [
        f"a retry of {name!r} of {producer!r} to {key!r} is taken for {found} and not for {right}"
        for producer, ids in stream.window.items()
        for name, tracked in ids
        for found in [(tuple(tracked.dot), tracked.entry_id)]
        for right in [expected.get(IdempotentId(producer, name))]
        if found != right
    ]


def shown(replica: Replica, key: bytes) -> dict[str, Any]:
    """Facts of the model as a replica holds them; also of a key that has expired."""
    stream = replica._streams.get(key)
    held = replica._registers.get(key)
    string = replica.keys.held_string(key)
    groups = {} if stream is None else stream.groups
    return {
        "entries": sorted(
            (
                lane.region,
                macro.n[index],
                entry_id,
                bytes(macro.fields_at(index)),
                macro.idempotent_at(index) or (),
            )
            for lane in (stream.lanes.values() if stream else ())
            for entry_id, macro, index in lane.scan(ID_MIN, ID_MAX)
        ),
        "groups": {name: sorted(group.creates) for name, group in groups.items()},
        "acked": {
            name: {lane: list(one) for lane, one in group.intervals.items()}
            for name, group in groups.items()
        },
        "modes": {
            name: (group.mode.epoch, group.mode.issuer, group.mode.mode, group.mode.home)
            for name, group in groups.items()
        },
        "last_ids": {region: (one.id, one.n) for region, one in stream.last_ids.items()}
        if stream
        else {},
        "exists": stream is not None and stream.exists,
        "registers": {
            "expiry": sorted(held.expiry.values.items()) if held else [],
            "duration": sorted(held.idmp_duration_s.values.items()) if held else [],
            "maxsize": sorted(held.idmp_maxsize.values.items()) if held else [],
        },
        "strings": {
            "shown": None if string is None else string.data,
            "values": [
                (dot, value.data, sorted(value.expiry.values.items()))
                for dot, value in (() if string is None else string.values())
            ],
            "shares": {
                region: (share.base, share.n, share.live, sorted(share.expiry.values.items()))
                for region, share in (() if string is None else string.shares())
            },
        },
    }


def traces_of(replica: Replica) -> tuple[object, ...]:
    """Values that show whether the state of a region has changed: its effects and other changes,
    records, checkpoints, and what is in memory."""
    residency = replica.residency
    return (
        replica,
        dict(replica.vv),
        replica.record_count,
        replica._issuer.changes,
        replica.images_made,
        replica.acknowledged_count,
        residency.warm_bytes,
        residency.packed_bytes,
        residency.absent_bytes,
        residency.absent_count,
        residency.cold_count,
    )
