"""CRDT.XGROUP: whether every region delivers a group's entries, one of them, or each its own.

A move of the home is a handover: the home itself stops, and says how far it had come and what is
pending.  If the home is lost, only FORCE helps: the region that takes over begins at the replicated
frontier, so that nothing is skipped and some of it comes again (``rules`` 13).
"""

from typing import Final

from crdtstream.commands.arguments import SYNTAX_ERROR, as_sent, parse_i64, shown
from crdtstream.commands.lookup import group_of, stream_or_error
from crdtstream.commands.reply import OK, CommandError, Reply, RespMap, Status
from crdtstream.core.effects import EPOCH_MAX, Mode, SetGroupMode
from crdtstream.core.groups.group import Group
from crdtstream.core.ids import REGION_MAX, Millis, RegionId
from crdtstream.core.keyspace.stream import Stream
from crdtstream.core.replica import Replica

HELP: Final = (
    "CRDT.XGROUP <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "GETMODE <key> <groupname>",
    "    Show which region delivers the entries of a group.",
    "SETMODE <key> <groupname> AT-LEAST-ONCE|HOME <region>|PARTITIONED [FORCE]",
    "    Set which region delivers the entries of a group. Modes are:",
    "    * AT-LEAST-ONCE",
    "      Every region, by itself, all but those known to be acknowledged.",
    "    * HOME <region>",
    "      This one region.",
    "    * PARTITIONED",
    "      Each region the entries that were added there.",
    "    FORCE",
    "      Do not ask the region that delivers now: entries not acknowledged in a row come again.",
    "HELP",
    "    Print this help.",
)


def set_mode(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """CRDT.XGROUP SETMODE key group at-least-once | home region | partitioned [FORCE].

    The region that delivers now must hand over, so the command is to be sent there; if that is not
    possible, with FORCE.  A FORCE that is not needed changes nothing.

    Raises:
        CommandError: the group is missing, an argument is wrong, the home is no active region, or
            FORCE is needed.
    """
    key, name = argv[2:4]
    mode, home, may_force = _arguments(argv)
    stream, group = _existing(replica, key, name)
    current = group.mode
    if home is not None:
        # A region that was removed stands for its heir.
        home = replica.acting_for(home)
        _check_hands_out(replica, home)
    if (mode, home) == (current.mode, group.home):
        return OK
    is_handover = current.mode is Mode.HOME and group.home == replica.region
    is_forced = current.mode is not Mode.AT_LEAST_ONCE and not is_handover
    if is_forced and not may_force:
        raise CommandError(_refusal(name, group))
    # With at-least-once no region takes over: each goes on from its own position.
    is_taken_over = is_handover and mode is not Mode.AT_LEAST_ONCE
    handover = group.handover(stream.lanes) if is_taken_over else {}
    if current.epoch >= EPOCH_MAX:
        raise CommandError(
            "ERR the mode of this group cannot be set any more: destroy and create it"
        )
    replica.issue(SetGroupMode(key, name, current.epoch + 1, mode, home, is_forced, handover))
    return OK


def _check_hands_out(replica: Replica, home: RegionId) -> None:
    """Refuse a home that would hand nothing out: it joins, or is no region of the database.

    A replica at epoch 0 knows no members, and refuses none.
    """
    members = replica.members
    if members.epoch and home not in members.active:
        member = members.find(home)
        why = "is no member" if member is None else f"is {member.status.value}"
        raise CommandError(
            f"ERR Region {home} {why}, and would hand nothing out: "
            f"active are {', '.join(map(str, members.active))}"
        )


def _arguments(argv: list[bytes]) -> tuple[Mode, RegionId | None, bool]:
    """The mode, its region with HOME, and whether FORCE was given."""
    words = argv[4:]
    try:
        mode = Mode(shown(words.pop(0)).lower())
    except ValueError as error:
        raise CommandError(
            f"ERR Unknown mode '{as_sent(argv[4][:128])}': "
            "at-least-once, home <region> or partitioned"
        ) from error
    home = None
    if mode is Mode.HOME:
        home = _region(words.pop(0) if words else b"")
    may_force = [word.lower() for word in words] == [b"force"]
    if words and not may_force:
        raise CommandError(SYNTAX_ERROR)
    return mode, home, may_force


def _region(text: bytes) -> RegionId:
    number = parse_i64(text)
    if number is None or not 1 <= number <= REGION_MAX:
        raise CommandError(f"ERR The home must be a region, a number from 1 to {REGION_MAX}")
    return RegionId(number)


def _existing(replica: Replica, key: bytes, name: bytes) -> tuple[Stream, Group]:
    stream = stream_or_error(replica, key)
    return stream, group_of(stream, key, name)


def _refusal(name: bytes, group: Group) -> str:
    again = "what is not yet acknowledged in a row is then handed out again"
    if group.mode.mode is Mode.HOME:
        return (
            f"ERR Region {group.home} is the home of group '{as_sent(name)}' and must hand over: "
            f"give the command there or, if that region is lost, add FORCE; {again}"
        )
    return (
        f"ERR Group '{as_sent(name)}' is partitioned and every region owns a lane of it: "
        f"add FORCE; {again}"
    )


def get_mode(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """CRDT.XGROUP GETMODE key group: mode and home, and which setting of them this is.

    Returns:
        A map; home is null but with ``home``, and the heir of a home that was removed; issuer (the
        region that set it) is null before any.
    """
    _, group = _existing(replica, argv[2], argv[3])
    current = group.mode
    return RespMap(
        [
            (b"mode", current.mode.value.encode()),
            (b"home", group.home),
            (b"epoch", current.epoch),
            (b"issuer", current.issuer or None),
        ]
    )


def show_help(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    return [Status(line.encode()) for line in HELP]
