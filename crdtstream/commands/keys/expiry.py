"""EXPIRE, TTL, PERSIST and their variants: when a key ends.

A deadline is milliseconds since the epoch and travels as such: a region whose clock is ahead sees
the key end earlier than one whose clock is behind.  What a condition (NX, XX, GT, LT) is compared
with is the deadline that counts in this region; what concurrent commands set elsewhere is settled
when it meets (``rules`` 7).
"""

from collections.abc import Collection
from typing import Final

from crdtstream.commands.arguments import I64_MAX, I64_MIN, as_sent, integer
from crdtstream.commands.keys.deleting import delete_key
from crdtstream.commands.lookup import deadline_of, exists
from crdtstream.commands.reply import CommandError, Reply
from crdtstream.core.effects import SetExpiry, SetStringExpiry
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica

NO_KEY: Final = -2
NO_DEADLINE: Final = -1

_MS: Final = 1
_SECOND_MS: Final = 1000
_EPOCH: Final = Millis(0)
_CONDITIONS: Final = frozenset({b"nx", b"xx", b"gt", b"lt"})


def expire(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """EXPIRE key seconds [NX | XX | GT | LT]."""
    return _expire(replica, now, argv, unit_ms=_SECOND_MS, base=now)


def pexpire(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """PEXPIRE key milliseconds [NX | XX | GT | LT]."""
    return _expire(replica, now, argv, unit_ms=_MS, base=now)


def expireat(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """EXPIREAT key unix-time-seconds [NX | XX | GT | LT]."""
    return _expire(replica, now, argv, unit_ms=_SECOND_MS, base=_EPOCH)


def pexpireat(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """PEXPIREAT key unix-time-milliseconds [NX | XX | GT | LT]."""
    return _expire(replica, now, argv, unit_ms=_MS, base=_EPOCH)


def _expire(
    replica: Replica, now: Millis, argv: list[bytes], *, unit_ms: int, base: Millis
) -> Reply:
    """Set the deadline; one that has passed deletes the key at once.

    Returns:
        1 if the deadline was set or the key deleted; 0 without a key, or if a condition forbids.

    Raises:
        CommandError: an option or number is wrong, or the time is beyond 64 bits.

    Source: the order of the checks is Redis's.
    """
    conditions = _conditions(argv[3:])
    deadline = _deadline(argv, unit_ms=unit_ms, base=base)
    key = argv[1]
    if not exists(replica, key) or not _allows(conditions, deadline_of(replica, key), deadline):
        return 0
    if deadline <= now:
        delete_key(replica, key)
    else:
        set_deadline(replica, key, deadline)
    return 1


def set_deadline(replica: Replica, key: bytes, deadline: Millis | None) -> None:
    """Set the deadline of all that the key holds; None: it has none any more."""
    if replica.stream(key) is not None:
        replica.issue(SetExpiry(key, deadline))
    if replica.keys.string(key) is not None:
        replica.issue(SetStringExpiry(key, deadline))


def _conditions(words: list[bytes]) -> frozenset[bytes]:
    conditions = set()
    for word in words:
        if word.lower() not in _CONDITIONS:
            raise CommandError(f"ERR Unsupported option {as_sent(word)}")
        conditions.add(word.lower())
    if b"nx" in conditions and len(conditions) > 1:
        raise CommandError("ERR NX and XX, GT or LT options at the same time are not compatible")
    if conditions >= {b"gt", b"lt"}:
        raise CommandError("ERR GT and LT options at the same time are not compatible")
    return frozenset(conditions)


def _deadline(argv: list[bytes], *, unit_ms: int, base: Millis) -> Millis:
    """Deadline that the command sets, in milliseconds since the epoch; it may have passed."""
    asked_ms = integer(argv[2]) * unit_ms
    if not I64_MIN <= asked_ms <= I64_MAX - base:
        raise CommandError(f"ERR invalid expire time in '{as_sent(argv[0].lower())}' command")
    return Millis(asked_ms + base)


def _allows(conditions: Collection[bytes], current: Millis | None, deadline: Millis) -> bool:
    """True if the conditions hold; a key without a deadline counts as one that never ends."""
    if current is None:
        return not {b"xx", b"gt"} & set(conditions)
    return not (
        b"nx" in conditions
        or (b"gt" in conditions and deadline <= current)
        or (b"lt" in conditions and deadline >= current)
    )


def persist(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """PERSIST key: 1 if the key had a deadline.

    It beats every deadline that is set elsewhere at the same time.  Where there is none to take
    away, nothing is said to the other regions either.
    """
    key = argv[1]
    if not exists(replica, key) or deadline_of(replica, key) is None:
        return 0
    set_deadline(replica, key, None)
    return 1


def ttl(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """TTL key: seconds until it ends, rounded; -1 without a deadline, -2 without a key."""
    return _tell(replica, argv[1], since=now, unit_ms=_SECOND_MS)


def pttl(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """PTTL key: the same in milliseconds."""
    return _tell(replica, argv[1], since=now, unit_ms=_MS)


def expiretime(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """EXPIRETIME key: the second since the epoch in which it ends, rounded; -1, -2 as in TTL."""
    return _tell(replica, argv[1], since=_EPOCH, unit_ms=_SECOND_MS)


def pexpiretime(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """PEXPIRETIME key: the same in milliseconds."""
    return _tell(replica, argv[1], since=_EPOCH, unit_ms=_MS)


def _tell(replica: Replica, key: bytes, *, since: Millis, unit_ms: int) -> int:
    if not exists(replica, key):
        return NO_KEY
    deadline = deadline_of(replica, key)
    if deadline is None:
        return NO_DEADLINE
    return (deadline - since + unit_ms // 2) // unit_ms
