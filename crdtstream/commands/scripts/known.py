"""The known scripts, by the SHA-1 of their text: what lock libraries and Redisson's RStream send.

There is no Lua here.  A library's script is a few lines that never change, so its SHA-1 names what
it does, and a function does that: the same replies, the same errors, at once, also in MULTI.

To add one: the SHA-1 of the very text that the library sends, and a function that does the same.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

from crdtstream.commands.arguments import ascending_ids, integer, strict_id
from crdtstream.commands.groups.pending import pending_ids
from crdtstream.commands.keys.deleting import delete_key
from crdtstream.commands.keys.expiry import persist, pexpire, pexpireat
from crdtstream.commands.lookup import exists, string_or_none
from crdtstream.commands.reply import CommandError, Reply
from crdtstream.commands.streams.entries import encode_entries
from crdtstream.commands.strings.deadlines import DeadlineOption
from crdtstream.commands.strings.setting import put
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica

_NO_ARGUMENT: Final = "ERR Lua redis lib command arguments must be strings or integers"


class ScriptError(Exception):
    """A command in a script answers an error; ``line`` of its text is where."""

    def __init__(self, text: str, line: int) -> None:
        super().__init__(text)
        self.text = text
        self.line = line


@dataclass(frozen=True, slots=True)
class Call:
    """One run of a script.

    Attributes:
        keys, args: KEYS and ARGV, counted from 0.
    """

    replica: Replica
    now: Millis
    keys: Sequence[bytes]
    args: Sequence[bytes]

    def key(self, line: int) -> bytes:
        """The first key, which a command in this line takes."""
        if not self.keys:
            raise ScriptError(_NO_ARGUMENT, line)
        return self.keys[0]

    def arg(self, at: int) -> bytes | None:
        return self.args[at] if at < len(self.args) else None

    def get(self, line: int) -> bytes | None:
        """GET of the first key."""
        key = self.key(line)
        try:
            string = string_or_none(self.replica, key)
        except CommandError as error:
            raise ScriptError(error.text, line) from error
        return None if string is None else string.data

    def pexpire(self, ms: bytes | None, line: int) -> None:
        """PEXPIRE of the first key."""
        if ms is None:
            raise ScriptError(_NO_ARGUMENT, line)
        try:
            pexpire(self.replica, self.now, [b"pexpire", self.key(line), ms])
        except CommandError as error:
            raise ScriptError(error.text, line) from error


RunScript: TypeAlias = Callable[[Call], Reply]


# --- redis-py: Lock -----------------------------------------------------------------------------


def _release(call: Call) -> Reply:
    """Lock.release: delete the lock if its token is ours; 1 if it was."""
    token = call.get(line=2)
    if token is None or token != call.arg(0):
        return 0
    delete_key(call.replica, call.keys[0])
    return 1


def _extend(call: Call) -> Reply:
    """Lock.extend: a later deadline, if the token is ours and there is a deadline."""
    token = call.get(line=2)
    if token is None or token != call.arg(0):
        return 0
    deadline = call.replica.keys.string_expiry.of(call.keys[0])
    if deadline is None:
        return 0
    new_ms = call.arg(1)
    if call.arg(2) == b"0":
        try:
            added_ms = integer(new_ms or b"")
        except CommandError as error:
            raise ScriptError(error.text, 16) from error
        new_ms = b"%d" % (added_ms + deadline - call.now)
    call.pexpire(new_ms, line=18)
    return 1


def _reacquire(call: Call) -> Reply:
    """Lock.reacquire: the deadline begins again, if the token is ours."""
    token = call.get(line=2)
    if token is None or token != call.arg(0):
        return 0
    call.pexpire(call.arg(1), line=6)
    return 1


# --- walrus: Lock, Database.cas -----------------------------------------------------------------


def _walrus_acquire(call: Call) -> Reply:
    """Lock.acquire: take the lock if it is free, with a deadline if ARGV[2] is above 0."""
    key, token, ttl_ms = call.key(line=4), call.arg(0), call.arg(1)
    if token is None:
        raise ScriptError(_NO_ARGUMENT, 4)
    if exists(call.replica, key):
        return 0
    deadline = None
    try:
        if integer(ttl_ms or b"0") > 0:
            deadline = DeadlineOption(b"px", ttl_ms or b"0").deadline(b"pexpire", call.now)
    except CommandError as error:
        raise ScriptError(error.text, 6) from error
    put(call.replica, key, token, deadline, call.now)
    return 1


def _walrus_release(call: Call) -> Reply:
    """Lock.release: delete the lock if its token is ours; 1 if it was.

    The script also pushes to a list, for clients that wait with BLPOP.  They watch the lock itself
    here (``waiting.py``).
    """
    token = call.get(line=4)
    if token is None or token != call.arg(0):
        return 0
    delete_key(call.replica, call.keys[0])
    return 1


def _walrus_cas(call: Call) -> Reply:
    """Database.cas: set the string if it begins with ARGV[1]; of an empty one, if it is empty."""
    data = call.get(line=4) or b""
    expected, new = call.arg(0), call.arg(1)
    if expected is None or new is None:
        raise ScriptError(_NO_ARGUMENT, 5)
    if (data[: len(expected)] if expected else data) != expected:
        return 0
    put(call.replica, call.keys[0], new, None, call.now)
    return 1


# --- Redisson: RStream --------------------------------------------------------------------------


def _redisson_pending_range(arg_count: int, words: tuple[bytes, ...], call: Call) -> Reply:
    """RStream.pendingRange: the entries that XPENDING lists; deleted ones are left out.

    Args:
        words: stand behind XPENDING's group.
    """
    key, args = call.key(line=1), call.args[:arg_count]
    if len(args) < arg_count:
        raise ScriptError(_NO_ARGUMENT, 1)
    try:
        texts = pending_ids(call.replica, call.now, [b"xpending", key, args[0], *words, *args[1:]])
    except CommandError as error:
        raise ScriptError(error.text, 1) from error
    stream = call.replica.stream(key)
    if not texts or stream is None:
        return []
    call.replica.read_entries(stream, ascending_ids(texts))
    # Of an ID that stands in several lanes the script takes what XRANGE shows first.
    first = [next(stream.find(strict_id(text)), None) for text in texts]
    return encode_entries([found for found in first if found is not None])[0]


def _redisson_expire(name: bytes, call: Call) -> Reply:
    """RExpirable.expire: PEXPIRE or PEXPIREAT of all keys; 1 if it set any deadline."""
    if not call.keys:
        return 0
    if len(call.args) < 2:
        raise ScriptError(_NO_ARGUMENT, 1)
    command = pexpire if name == b"pexpire" else pexpireat
    time, condition = call.args[:2]
    words = [time, condition] if condition else [time]
    try:
        replies = [command(call.replica, call.now, [name, key, *words]) for key in call.keys]
    except CommandError as error:
        raise ScriptError(error.text, 1) from error
    return int(1 in replies)


def _redisson_clear_expire(call: Call) -> Reply:
    """RExpirable.clearExpire: PERSIST of all keys; 1 if any had a deadline."""
    replies = [persist(call.replica, call.now, [b"persist", key]) for key in call.keys]
    return int(1 in replies)


# By the digest of a script the commands that it runs, each with its line: a user needs the right to
# all of them.  Commands that do not exist here are left out.
SCRIPT_COMMANDS: Final[Mapping[bytes, tuple[tuple[bytes, int], ...]]] = {
    b"c3f8721cbb97f72bc19e972846bd7aaf91901658": ((b"get", 2), (b"del", 6)),
    b"a4e8783852e6b949f9ef3a97212805108459a890": ((b"get", 2), (b"pttl", 6), (b"pexpire", 18)),
    b"1cac51482acf5858da00f6d685d68f886cd6b6b2": ((b"get", 2), (b"pexpire", 6)),
    b"d893d8da0844b834c9c5a41fb79b469749e6f442": ((b"setnx", 4), (b"pexpire", 6)),
    b"758ee2fc57c84a93a25cd712f592a1b4898d6c03": ((b"get", 4), (b"del", 7)),
    b"f7d92c7ca476a588cb06d6d8883b3762f9ceffde": ((b"get", 4), (b"set", 5)),
    b"a5ad33416e21dcdb82079edc6036e065c3bb1ef3": ((b"xpending", 1), (b"xrange", 1)),
    b"a8978dfa4ec56278ca0da2390342da1f857d6e8e": ((b"xpending", 1), (b"xrange", 1)),
    b"80f053fe848a3836edfb83c10d4c9f7a867787f3": ((b"xpending", 1), (b"xrange", 1)),
    b"958eae138b30e8ebebaa7462ab0f6f74bee663b5": ((b"xpending", 1), (b"xrange", 1)),
    b"3fd750e0b43af99dbd223e5523718f18cded3664": ((b"pexpire", 1),),
    b"71dee1cdc1c23a6aa34dd4a3bbfb2b6dfb3f72cb": ((b"pexpireat", 1),),
    b"3e87b23af056c9bbfa98cb959044b3cb917003b9": ((b"persist", 1),),
}

KNOWN_SCRIPTS: Final[Mapping[bytes, RunScript]] = {
    b"c3f8721cbb97f72bc19e972846bd7aaf91901658": _release,
    b"a4e8783852e6b949f9ef3a97212805108459a890": _extend,
    b"1cac51482acf5858da00f6d685d68f886cd6b6b2": _reacquire,
    b"d893d8da0844b834c9c5a41fb79b469749e6f442": _walrus_acquire,
    b"758ee2fc57c84a93a25cd712f592a1b4898d6c03": _walrus_release,
    b"f7d92c7ca476a588cb06d6d8883b3762f9ceffde": _walrus_cas,
    b"a5ad33416e21dcdb82079edc6036e065c3bb1ef3": partial(_redisson_pending_range, 4, ()),
    b"a8978dfa4ec56278ca0da2390342da1f857d6e8e": partial(_redisson_pending_range, 5, ()),
    b"80f053fe848a3836edfb83c10d4c9f7a867787f3": partial(_redisson_pending_range, 5, (b"IDLE",)),
    b"958eae138b30e8ebebaa7462ab0f6f74bee663b5": partial(_redisson_pending_range, 6, (b"IDLE",)),
    b"3fd750e0b43af99dbd223e5523718f18cded3664": partial(_redisson_expire, b"pexpire"),
    b"71dee1cdc1c23a6aa34dd4a3bbfb2b6dfb3f72cb": partial(_redisson_expire, b"pexpireat"),
    b"3e87b23af056c9bbfa98cb959044b3cb917003b9": _redisson_clear_expire,
}
