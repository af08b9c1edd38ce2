"""SUBSCRIBE, PUBLISH and their family.

SUBSCRIBE and UNSUBSCRIBE answer a push per name, not one reply.  In an EXEC these stand in the
array in the place of one reply.  As in Redis, more than one name makes the array longer than it
says.

Source: redis.io/docs/latest/develop/pubsub, and the pages of the commands.
"""

from collections.abc import Callable
from typing import Final

from crdtstream.commands.command import documented
from crdtstream.commands.glob import compile_glob
from crdtstream.commands.reply import CommandError, Push, Pushes, Reply
from crdtstream.commands.subcommands import bad_subcommand, help_reply
from crdtstream.database.channels import Channels
from crdtstream.database.listening import Kind
from crdtstream.database.session import RunSessionCommand, Session, SessionCommand

HELP: Final = (
    "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CHANNELS [<pattern>]",
    "    Return the currently active channels matching a <pattern> (default: '*').",
    "NUMPAT",
    "    Return number of subscriptions to patterns.",
    "NUMSUB [<channel> ...]",
    "    Return the number of subscribers for the specified channels, excluding",
    "    pattern subscriptions(default: no channels).",
    "SHARDCHANNELS [<pattern>]",
    "    Return the currently active shard level channels matching a <pattern> (default: '*').",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    Return the number of subscribers for the specified shard level channel(s)",
    "HELP",
    "    Print this help.",
)

_KindCommand = Callable[[Kind, Session, list[bytes]], Reply]


class PubSub:
    """The commands of publish and subscribe."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels

    def commands(self) -> list[SessionCommand]:
        channel, pattern, shard = Kind.CHANNEL, Kind.PATTERN, Kind.SHARD
        publish, subscribe, unsubscribe = self._publish, self._subscribe, self._unsubscribe
        functions: dict[bytes, tuple[_KindCommand, Kind]] = {
            b"publish": (publish, channel),
            b"spublish": (publish, shard),
            b"subscribe": (subscribe, channel),
            b"psubscribe": (subscribe, pattern),
            b"ssubscribe": (subscribe, shard),
            b"unsubscribe": (unsubscribe, channel),
            b"punsubscribe": (unsubscribe, pattern),
            b"sunsubscribe": (unsubscribe, shard),
            b"pubsub|channels": (self._active, channel),
            b"pubsub|shardchannels": (self._active, shard),
            b"pubsub|numsub": (self._numsub, channel),
            b"pubsub|shardnumsub": (self._numsub, shard),
            b"pubsub|numpat": (self._numpat, pattern),
            b"pubsub|help": (self._help, channel),
        }
        return documented(
            SessionCommand,
            {name: _with_kind(run, kind) for name, (run, kind) in functions.items()},
        )

    def _publish(self, kind: Kind, _session: Session, argv: list[bytes]) -> Reply:
        """PUBLISH channel message: number of messages sent, here and in regions that are linked."""
        return self._channels.publish(argv[1], argv[2], sharded=kind is Kind.SHARD)

    def _subscribe(self, kind: Kind, session: Session, argv: list[bytes]) -> Reply:
        """SUBSCRIBE name …: a push per name, with how many names the client listens to then."""
        if kind is Kind.SHARD and session.in_exec:
            raise CommandError("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client")
        pushes = []
        for name in argv[1:]:
            self._channels.subscribe(session, kind, name)
            pushes.append(self._confirm(b"subscribe", kind, session, name))
        return Pushes(pushes)

    def _unsubscribe(self, kind: Kind, session: Session, argv: list[bytes]) -> Reply:
        """UNSUBSCRIBE [name …]: a push per name, of all without one; a null if there is none."""
        names: list[bytes] = argv[1:] or self._channels.names(session, kind)
        pushes = []
        for name in names:
            self._channels.unsubscribe(session, kind, name)
            pushes.append(self._confirm(b"unsubscribe", kind, session, name))
        return Pushes(pushes or [self._confirm(b"unsubscribe", kind, session, None)])

    def _confirm(self, word: bytes, kind: Kind, session: Session, name: bytes | None) -> Push:
        """Channels and patterns are counted together, shard channels by themselves."""
        counted = (kind,) if kind is Kind.SHARD else (Kind.CHANNEL, Kind.PATTERN)
        count = sum(self._channels.name_count(session, each) for each in counted)
        return Push([kind.value + word, name, count])

    def _active(self, kind: Kind, _session: Session, argv: list[bytes]) -> Reply:
        """PUBSUB CHANNELS [pattern]: names that have listeners anywhere, patterns apart."""
        if len(argv) > 3:
            raise bad_subcommand(argv)
        names = self._channels.active_anywhere(kind)
        if len(argv) == 2:
            return list(names)
        matches = compile_glob(argv[2])
        return [name for name in names if matches(name)]

    def _numsub(self, kind: Kind, _session: Session, argv: list[bytes]) -> Reply:
        """PUBSUB NUMSUB [channel …]: each with how many listen to it, in turn."""
        reply: list[Reply] = []
        for name in argv[2:]:
            reply += [name, self._channels.listener_count_anywhere(kind, name)]
        return reply

    def _numpat(self, kind: Kind, _session: Session, _argv: list[bytes]) -> Reply:
        """PUBSUB NUMPAT: how many different patterns are listened to."""
        return len(self._channels.active_anywhere(kind))

    def _help(self, _kind: Kind, _session: Session, _argv: list[bytes]) -> Reply:
        return help_reply(HELP)


def _with_kind(run: _KindCommand, kind: Kind) -> RunSessionCommand:
    return lambda session, _now, argv: run(kind, session, argv)
