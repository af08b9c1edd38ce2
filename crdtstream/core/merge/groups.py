"""The groups of a key: creates by dot, what belongs to them, and what follows for this region.

Consumers, positions and what is pending stay this region's own.  They change as the effects that
this region had not applied would have changed them, in this order:

1. None of the creates that were live here lives on: all that is local is dropped with them, also
   acknowledgements that are not issued yet (``rules`` 12).
2. Creates of the other side: one with a lower start takes a lane back to the frontier.
3. Acknowledged intervals that are new here: what is pending in them is so no more, and delivery
   skips them; what XGROUP SETID made unread stays so (``rules`` 11).
4. Changes of mode that are not causally stable and were not applied here, each as it would have
   been applied: handovers, empty ones, FORCE (``rules`` 13).
5. If one of them came, or a create was removed, it is settled which region delivers what was left
   to others.
"""

from collections.abc import Collection, Mapping

from crdtstream.core.checkpoint.contents import GroupContent
from crdtstream.core.clock import Dot
from crdtstream.core.groups.creates import Create
from crdtstream.core.groups.mode import ModeRegister
from crdtstream.core.groups.unstable_settings import Setting, in_causal_order
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.merge.keys import Destroys
from crdtstream.core.merge.presence import Both
from crdtstream.core.merge.sent import SentKey
from crdtstream.core.whole.restoring import create_of, setting_of
from crdtstream.core.whole.state import State


def merge_groups(state: State, stream: Stream, sent: SentKey, both: Both) -> None:
    """Merge all groups of a key.  Its lanes and last IDs are merged; tombstones are not yet."""
    for name in [*stream.groups, *(name for name in sent.groups if name not in stream.groups)]:
        merge_group(state, stream, name, sent, both)


def merge_group(state: State, stream: Stream, name: bytes, sent: SentKey, both: Both) -> None:
    """Merge one group of a key."""
    theirs = sent.groups.get(name)
    settings = _unheard_settings(sent.key, name, theirs, both)
    group = stream.groups.get(name)
    mine = {} if group is None else dict(group.creates.all())
    creates = _merged(mine, _creates_of(theirs, settings), both, Destroys(state, sent, name))
    if group is not None and not any(dot in creates for dot in mine):
        state.grown_runs.forget((sent.key, name))
        stream.drop_group(name)
        group = None
    if not creates:
        return
    if group is None:
        group = state.new_group(stream.part, name)
        stream.add_group(name, group)
    elif theirs is None and len(creates) == len(mine):
        return
    group.merge_creates(creates, stream.lanes, stream.last_ids)
    for dot, setting in in_causal_order(settings):
        if group.creates.covers_any(setting.context):
            group.set_mode(setting.effect, dot, setting.context)
            state.settings.note(dot, sent.key, name)
    assert set(group.creates) == creates.keys(), "a change of mode ends no create"
    if settings or any(dot not in creates for dot in mine):
        group.settle_who_hands_out()


def _merged(
    mine: Mapping[Dot, Create], theirs: Mapping[Dot, Create], both: Both, destroys: Destroys
) -> dict[Dot, Create]:
    """The creates that live on, each with what either side knows of it."""
    united = both.without_destroyed(both.united(mine, theirs), destroys.here, destroys.there)
    return {
        dot: create.united(theirs[dot]) if dot in mine and dot in theirs else create
        for dot, create in united.items()
    }


def _creates_of(
    content: GroupContent | None, unheard: Collection[tuple[Dot, Setting]]
) -> dict[Dot, Create]:
    """The other side's creates, without the modes that were not heard of here.

    Such a mode counts when its change is applied, so that the change does all that it is to do.
    """
    creates = {} if content is None else dict(map(create_of, content.creates))
    unheard_modes = {(setting.effect.epoch, dot.region) for dot, setting in unheard}
    for create in creates.values():
        if (create.mode.epoch, create.mode.issuer) in unheard_modes:
            create.mode = ModeRegister()
    return creates


def _unheard_settings(
    key: bytes, name: bytes, theirs: GroupContent | None, both: Both
) -> list[tuple[Dot, Setting]]:
    """The changes of mode that this region has not applied."""
    contents = () if theirs is None else theirs.settings
    return [(one.dot, setting_of(key, name, one)) for one in contents if both.is_new_here(one.dot)]
