"""A group's mode changes: what this region takes over, and what it takes up again (``rules`` 13).

A SetGroupMode says who hands out from now on, and its handover how far the old home had come:

    old home    run_from ......... x....x. last_delivered       x: pending there
    new home    what was handed out there is not handed out again; x is pending here, with nobody

What regions hand out in the end depends on the set of these effects, and not on their order.  So a
handover that is meant for this region tells what was handed out whenever it comes; and what was
left to other regions is taken up again as soon as it falls to this one.

A region that is removed hands nothing over: its heir takes what it handed out, as with FORCE, and
whichever of the removal and a setting that names the removed region comes first.
"""

from crdtstream.core.clock import VersionVector, covers_dot
from crdtstream.core.effects import LaneHandover, Mode, SetGroupMode, counted
from crdtstream.core.groups.creates import position_in
from crdtstream.core.groups.mode import ModeRegister
from crdtstream.core.groups.pel import Pel
from crdtstream.core.groups.progress import LaneProgress
from crdtstream.core.groups.reading import Reading
from crdtstream.core.ids import RegionId


def handover_of(progress: LaneProgress) -> LaneHandover:
    """What the next to hand out a lane's entries must know of it."""
    return LaneHandover(
        run_from=min(progress.run_from, progress.last_delivered),
        last_delivered=progress.last_delivered,
        handed_out=tuple(progress.handed_out),
        ignore_until=progress.ignore_until,
        pending=tuple((nack.id, nack.delivery_count) for nack in progress.pel.nacks()),
        entries_read=progress.entries_read,
    )


def change_mode(
    reading: Reading, pel: Pel, effect: SetGroupMode, issuer: RegionId, context: VersionVector
) -> None:
    """A SetGroupMode, whether it wins or not."""
    register = ModeRegister(effect.epoch, issuer, effect.mode, effect.home)
    wins = reading.creates.set_mode(register, context)
    if issuer != reading.here and not effect.forced and register.mode is not Mode.AT_LEAST_ONCE:
        for region, handover in sorted(effect.handover.items()):
            # One for a removed region is not for its heir: that may have heard of it earlier.
            if register.named(region) == reading.here:
                _take_in_handed_out(reading, pel, region, handover)
                if wins:
                    _continue_from(reading, region, handover)
                    _go_back_to_unheard_create(reading, region, context)
    if wins:
        # Whoever takes a lane, or inherits it, begins at its frontier, whatever a handover said
        # before.
        for region in reading.lanes:
            is_taken = effect.forced or register.named(region) not in (None, reading.here)
            if is_taken and reading.hands_out(region):
                _take_up_left_out(reading, region)
    settle_who_hands_out(reading)


def settle_who_hands_out(reading: Reading) -> None:
    """Mode or members may have changed: take up what was left to others if it falls to this region
    now."""
    for region, progress in reading.lanes.items():
        if not reading.hands_out(region):
            # From now on others deliver what was jumped here, however it came to be.
            progress.has_left_out = True
        elif progress.has_left_out:
            _take_up_left_out(reading, region)
    reading.settle_position_of_others()


def _take_in_handed_out(
    reading: Reading, pel: Pel, region: RegionId, handover: LaneHandover
) -> None:
    """What the old home had handed out is not handed out again here.

    What of it had not been acknowledged becomes pending here, owned by nobody.
    """
    progress = reading.keep(region)
    # What had been handed out here before, under another mode, is not handed out again; but for
    # what the old home was set back to read once more.
    reading.keep_as_handed_out(progress)
    progress.handed_out.remove(handover.last_delivered, handover.ignore_until)
    runs = [(handover.run_from, handover.last_delivered), *handover.handed_out]
    for start, end in runs:
        if start < end:
            progress.handed_out.add(start, end)

    pending = dict(handover.pending)
    for start, end in runs:
        # Acknowledged there, though not in a row.
        pel.drop_within(region, start, end, keep=pending)
    known = reading.creates.intervals_of(region)
    taken_over = []
    for entry_id, count in pending.items():
        if entry_id > handover.ignore_until and known.contains(entry_id):
            # Acknowledged in a third region, and the old home had not heard of it.
            continue
        if entry_id not in progress.pel:
            taken_over.append((region, entry_id, count))
    pel.give_back(taken_over)


def _continue_from(reading: Reading, region: RegionId, handover: LaneHandover) -> None:
    """Stand where the old home stopped.

    The run that begins at its ``run_from`` is now vouched for here, and stops at what it left
    pending.
    """
    progress = reading.lanes[region]
    progress.has_left_out = False
    progress.run_from = handover.run_from
    progress.last_delivered = handover.last_delivered
    progress.ignore_until = handover.ignore_until
    read = handover.entries_read
    progress.entries_read = None if read is None else counted(read)
    reading.skip_covered(region, progress)


def _go_back_to_unheard_create(reading: Reading, region: RegionId, context: VersionVector) -> None:
    """Go back if there is a create with a lower start that the old home had not heard of."""
    creates = reading.creates
    seen = [start for dot, start in creates.items() if covers_dot(context, dot)]
    start = creates.start_of(region)
    if start < min(position_in(one, region) for one in seen):
        reading.go_back(region, start)


def _take_up_left_out(reading: Reading, region: RegionId) -> None:
    """Go back to the frontier, and from there over what was handed out here."""
    progress = reading.lanes[region]
    progress.has_left_out = False
    position, read = progress.last_delivered, progress.entries_read
    reading.go_back(region, reading.creates.start_of(region))
    reading.skip_covered(region, progress)
    if progress.last_delivered == position:
        progress.entries_read = read
