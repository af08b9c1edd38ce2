"""The GROUP part of a group; its pending entries are parts of their own."""

from collections.abc import Mapping

from crdtstream.core.checkpoint.contents import (
    ConsumerContent,
    CreateContent,
    GroupContent,
    HandoverContent,
    IntervalsContent,
    ModeContent,
    ProgressContent,
    SettingContent,
    StartContent,
    id_content,
    packed,
)
from crdtstream.core.clock import Dot
from crdtstream.core.effects import LaneHandover, Start
from crdtstream.core.groups.creates import Creates
from crdtstream.core.groups.mode import ModeRegister
from crdtstream.core.groups.pel import Pel
from crdtstream.core.groups.reading import Reading
from crdtstream.core.groups.unstable_settings import Setting
from crdtstream.core.ids import RegionId
from crdtstream.core.intervals import Intervals


def encode_group(
    name: bytes,
    number: int,
    *,
    creates: Creates,
    reading: Reading,
    pel: Pel,
    settings: Mapping[Dot, Setting],
) -> bytes:
    """A group without its pending entries."""
    others = reading.position_of_others
    return packed(
        GroupContent(
            number=number,
            name=name,
            creates=_creates(creates),
            lanes=[
                ProgressContent(
                    region=region,
                    last_delivered=id_content(progress.last_delivered),
                    run_from=id_content(progress.run_from),
                    ignore_until=id_content(progress.ignore_until),
                    handed_out=_intervals(progress.handed_out),
                    has_left_out=progress.has_left_out,
                    skip_pending_until=id_content(progress.skip_pending_until),
                    entries_read=progress.entries_read,
                )
                for region, progress in reading.lanes.items()
            ],
            position=None if others is None else _start(others.position),
            position_known=[] if others is None else sorted(others.known),
            position_is_left=others is not None and others.is_left,
            read_hint=reading.read_hint,
            consumers=[
                ConsumerContent(
                    consumer.number, consumer.name, consumer.seen_ms, consumer.active_ms
                )
                for consumer in pel.consumers_by_name()
            ],
            consumers_made=pel.consumers_made,
            turns_taken=pel.turns_taken,
            settings=[_setting(dot, setting) for dot, setting in settings.items()],
        )
    )


def _creates(creates: Creates) -> list[CreateContent]:
    return [
        CreateContent(
            dot=dot,
            start=_start(create.start),
            intervals={
                region: _intervals(intervals) for region, intervals in create.intervals.items()
            },
            mode=_mode(create.mode),
        )
        for dot, create in creates.all()
    ]


def _setting(dot: Dot, setting: Setting) -> SettingContent:
    effect = setting.effect
    return SettingContent(
        dot=dot,
        context=dict(setting.context),
        epoch=effect.epoch,
        mode=effect.mode,
        home=effect.home,
        forced=effect.forced,
        handover=[_handover(region, lane) for region, lane in effect.handover.items()],
    )


def _handover(region: RegionId, lane: LaneHandover) -> HandoverContent:
    return HandoverContent(
        region=region,
        run_from=id_content(lane.run_from),
        last_delivered=id_content(lane.last_delivered),
        handed_out=[(id_content(low), id_content(high)) for low, high in lane.handed_out],
        ignore_until=id_content(lane.ignore_until),
        pending=[(id_content(entry_id), count) for entry_id, count in lane.pending],
        entries_read=lane.entries_read,
    )


def _start(start: Start) -> StartContent:
    if isinstance(start, int):
        return id_content(start)
    return {region: id_content(entry_id) for region, entry_id in start.items()}


def _intervals(intervals: Intervals) -> IntervalsContent:
    return [(id_content(low), id_content(high)) for low, high in intervals]


def _mode(mode: ModeRegister) -> ModeContent | None:
    if not mode.epoch:
        return None
    return ModeContent(mode.epoch, mode.issuer, mode.mode, mode.home)
