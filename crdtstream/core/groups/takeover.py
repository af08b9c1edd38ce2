"""A group's mode changes: what this region takes over, and what it takes up again (``rules`` 13).

A SetGroupMode says which region delivers from now on, and its handover how far the old home was:

    old home    run_from ......... x....x. last_delivered       x: pending there
    new home    what was delivered there is not delivered again; x is pending here, without owner

What regions deliver in the end depends on the set of these effects, and not on their order.  So a
handover to this region says what was delivered, whenever it arrives.  What was left to other
regions is taken up again as soon as it falls to this one.

A region that is removed hands nothing over: its heir takes what it delivered, as with FORCE.  It
does not matter whether the removal or a setting that names the removed region comes first.
"""

from crdtstream.core.clock import VersionVector, covers_dot
from crdtstream.core.effects import LaneHandover, Mode, SetGroupMode
from crdtstream.core.groups.creates import position_in
from crdtstream.core.groups.mode import ModeRegister
from crdtstream.core.groups.pel import Pel
from crdtstream.core.groups.reading import Reading
from crdtstream.core.ids import RegionId


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
        # A region that takes a lane, or inherits it, begins at its frontier, whatever a handover
        # said before.
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
            progress.leave_out()
        elif progress.has_left_out:
            _take_up_left_out(reading, region)
        assert progress.has_left_out is not reading.hands_out(region)
    reading.settle_position_of_others()


def _take_in_handed_out(
    reading: Reading, pel: Pel, region: RegionId, handover: LaneHandover
) -> None:
    """Note what the old home had delivered, so that it is not delivered again here.

    The entries of it that had not been acknowledged become pending here, without an owner.
    """
    progress = reading.keep(region)
    pending = dict(handover.pending)
    for start, end in progress.take_in(handover):
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
    progress.continue_from(handover)
    reading.skip_covered(region, progress)


def _go_back_to_unheard_create(reading: Reading, region: RegionId, context: VersionVector) -> None:
    """Go back if there is a create with a lower start that the old home had not heard of."""
    creates = reading.creates
    seen = [start for dot, start in creates.items() if covers_dot(context, dot)]
    start = creates.start_of(region)
    assert seen, "the mode belongs to a create that its issuer had observed"
    if start < min(position_in(one, region) for one in seen):
        reading.go_back(region, start)


def _take_up_left_out(reading: Reading, region: RegionId) -> None:
    """Go back to the frontier, and from there over what was delivered here."""
    progress = reading.lanes[region]
    progress.take_up_left_out()
    position, read = progress.last_delivered, progress.entries_read
    reading.go_back(region, reading.creates.start_of(region))
    reading.skip_covered(region, progress)
    if progress.last_delivered == position:
        progress.count_read(read)
