"""Refused requests and logins: counted by reason, and kept for ACL LOG.

Alike refusals within a minute are one entry, with a count.  The newest entry comes first, and a
repeated one moves there.

Calls and pages whose user is refused are there as well, in contexts of ours.  A program on those
ports chooses what it asks for, and so could push out what Redis clients were refused: beyond
``NOTED_PER_SECOND_MAX`` its refusals are counted and not kept.

Always so: an entry takes little memory, however long the names are that a client chose.

Source: redis.io/commands/acl-log.
"""

from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from crdtstream.core.ids import Millis
from crdtstream.core.size import Size
from crdtstream.database.acl.selectors import Reason

# Refusals further apart than this are entries of their own.
GROUPED_MS_MAX: Final = Millis(60_000)
# A repeated refusal is looked for among this many entries.
LOOKED_AT_MAX: Final = Size(10, least=1)
# Bytes kept of the object and of the user's name: a user without rights can send long ones.
NAME_BYTES_MAX: Final = Size(128, least=1)
# Bytes kept of a client's description, which has some 400 and the name of the client.
CLIENT_BYTES_MAX: Final = Size(1_024, least=1)
# Refusals of calls and pages that are kept in one second.
NOTED_PER_SECOND_MAX: Final = Size(16, least=1)


class Context(Enum):
    """Context in which a request was refused; the value is Redis's word, of the last two ours."""

    TOPLEVEL = "toplevel"
    MULTI = "multi"
    LUA = "lua"
    GRPC = "grpc"
    HTTP = "http"


@dataclass(frozen=True, slots=True)
class Refused:
    """A request or a login that was refused.

    Attributes:
        subject: the command, key or channel; of a login, the command that tried it.  Of a call or a
            page its name.
        user: name of the user, also of one that does not exist.

    The log keeps the beginnings of both.
    """

    reason: Reason
    context: Context
    subject: bytes
    user: bytes


@dataclass(slots=True)
class Entry:
    """Refusals that are alike.

    Attributes:
        number: ascending in the order of first refusals.
        client: the last client, as CLIENT INFO describes it.
        created_ms, updated_ms: times of the first and the last one.
    """

    refused: Refused
    number: int
    client: bytes
    created_ms: Millis
    updated_ms: Millis
    count: int = 1


class AclLog:
    """The entries of ACL LOG.

    Attributes:
        length_max: number of entries that are kept; 0: none is added (acllog-max-len).
        entries: the newest first.
        denied: count of refusals by reason.
    """

    def __init__(self, length_max: int) -> None:
        self.length_max = length_max
        self.entries: list[Entry] = []
        self.denied: dict[Reason, int] = dict.fromkeys(Reason, 0)
        self._number = 0
        # The second in which refusals of programs were kept last, and how many.
        self._second = -1
        self._noted = 0

    def note_program(self, refused: Refused, address: str, now: Millis) -> None:
        """Count a refused call or page, and keep it unless there are too many in this second.

        Args:
            address: of the program: its IP address, with the port if it is known.
        """
        if now // 1000 != self._second:
            self._second, self._noted = now // 1000, 0
        self._noted += 1
        if self._noted > NOTED_PER_SECOND_MAX.value:
            self.denied[refused.reason] += 1
            return
        # As CLIENT INFO has it, which programs take apart at spaces.
        user, what = map(_as_word, (refused.user, refused.subject))
        client = b"id=0 addr=%b name= user=%b cmd=%b" % (address.encode(), user, what)
        self.note(refused, client, now)

    def note(self, refused: Refused, client: bytes, now: Millis) -> None:
        """Count a refusal, and keep it."""
        self.denied[refused.reason] += 1
        if not self.length_max:
            return
        refused = replace(
            refused,
            subject=refused.subject[: NAME_BYTES_MAX.value],
            user=refused.user[: NAME_BYTES_MAX.value],
        )
        client = client[: CLIENT_BYTES_MAX.value]
        for entry in self.entries[: LOOKED_AT_MAX.value]:
            if entry.refused == refused and abs(now - entry.updated_ms) <= GROUPED_MS_MAX:
                entry.count += 1
                entry.client, entry.updated_ms = client, now
                self.entries.remove(entry)
                self.entries.insert(0, entry)
                break
        else:
            self.entries.insert(0, Entry(refused, self._number, client, now, now))
            self._number += 1
        del self.entries[self.length_max :]

    def reset(self) -> None:
        """Forget all entries."""
        self.entries.clear()

    def reset_counters(self) -> None:
        """Let the counters begin at 0."""
        self.denied = dict.fromkeys(Reason, 0)


def _as_word(name: bytes) -> bytes:
    return bytes(one if 0x21 <= one <= 0x7E else 0x3F for one in name[: NAME_BYTES_MAX.value])
