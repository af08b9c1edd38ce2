"""One connection to an end: pipelines of commands, replies as Redis sends them (RESP2).

Always so: the replies to one pipeline are awaited together, and no more than ``REPLY_BYTES_MAX``
are read for them.  So an end with huge entries, or one that sends rubbish, cannot fill the memory.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

import hiredis

from crdtstream.move.address import Address
from crdtstream.move.errors import LostError, MoveError, UnreachableError

Word: TypeAlias = bytes | str | int
Reply: TypeAlias = Any

CONNECT_SECONDS: Final = 10.0
# A region that copies a large stream answers nobody for seconds; a server that is stuck, for ever.
SILENCE_SECONDS: Final = 60.0
READ_BYTES: Final = 1 << 18
# Two entries of 64 MiB, as XINFO STREAM shows the first and the last, and the rest of a page.
REPLY_BYTES_MAX: Final = 256 << 20

# Errors that pass: the server loads its data, fails over, or bounds its replication lag.
_PASSING: Final = ("LOADING", "MASTERDOWN", "TRYAGAIN", "CLUSTERDOWN", "BUSY", "LAGGED")
_ADVICE: Final = {
    "NOAUTH": "it wants a password; name a file with it, or set the variable (see --help)",
    "WRONGPASS": "user or password are wrong",
    "NOPERM": "the user lacks a right; give it with ACL SETUSER, or use another user",
    "MOVED": "it belongs to a Redis Cluster and does not have this key; a cluster can be a source,"
    " one move for each master, and no target",
    "ASK": "its cluster moves this key to another node; wait until the cluster is stable",
    "CROSSSLOT": "it belongs to a Redis Cluster, which cannot be a target",
    "OOM": "it has no memory left; raise its maxmemory, then run the same command again",
    "READONLY": "it is a replica; name its master",
    "NOREPLICAS": "it refuses writes (min-replicas-to-write); it may be fenced by another move",
    "MISCONF": "it cannot save its data, and refuses writes; look at its log",
}


class ReplyError(Exception):
    """An error with which an end answered a command."""


class TooLargeError(MoveError):
    """The replies to a pipeline exceed the bound; a smaller request may not.

    No outage: the same request has the same reply.  The connection is closed.
    """


class Connection:
    """A connection after its login; one pipeline at a time.

    Attributes:
        name: of the end, for messages.
        bytes_read: all that has arrived so far.
        page_entries_max: by stream, how many entries a page may have; all connections to an end
            share it, so the next one knows which pages were too large.
        progressed: called when a part of long work is done, such as another page.
    """

    def __init__(
        self,
        name: str,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        page_entries_max: dict[bytes, int],
    ) -> None:
        self.name = name
        self.page_entries_max = page_entries_max
        self.progressed: Callable[[], None] = _nothing
        self.bytes_read = 0
        self._reader = reader
        self._writer = writer
        self._parser = hiredis.Reader(protocolError=LostError, replyError=ReplyError)

    @classmethod
    async def open(
        cls, address: Address, page_entries_max: dict[bytes, int] | None = None
    ) -> "Connection":
        """
        Raises:
            LostError: the end does not answer.
            MoveError: it refuses the login, or its certificate does not hold.
        """
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                reader, writer = await _streams(address)
        except ssl.SSLError as error:
            raise MoveError(
                f"{address.name}: TLS fails: {error.reason or error}; check the authorities and"
                " whether the port speaks TLS"
            ) from error
        except TimeoutError as error:
            raise LostError(f"{address.name} does not answer: {_why(error)}") from error
        except OSError as error:
            raise UnreachableError(f"{address.name} does not answer: {_why(error)}") from error
        connection = cls(
            address.name, reader, writer, {} if page_entries_max is None else page_entries_max
        )
        try:
            await connection._log_in(address)
        except BaseException:
            connection.close()
            raise
        return connection

    async def _log_in(self, address: Address) -> None:
        if address.password is not None:
            user = () if address.user is None else (address.user,)
            await self.call("AUTH", *user, address.password)
        if address.database:
            await self.call("SELECT", address.database)

    def close(self) -> None:
        self._writer.close()

    async def call(self, *words: Word) -> Reply:
        """The reply to one command.

        Raises:
            LostError: the connection broke, or the end cannot answer now.
            MoveError: it answered with another error.
        """
        return self.checked((await self.run([words]))[0], words)

    async def call_or_none(self, *words: Word) -> Reply:
        """The same; None for an error that says that the command or the key is of no use here."""
        reply = (await self.run([words]))[0]
        if isinstance(reply, ReplyError) and str(reply).startswith(("ERR", "NOPERM")):
            return None
        return self.checked(reply, words)

    def checked(self, reply: Reply, words: Sequence[Word]) -> Reply:
        """A reply that is no error; see ``call``."""
        if not isinstance(reply, ReplyError):
            return reply
        text = str(reply)
        kind = text.partition(" ")[0]
        if kind in _PASSING:
            raise LostError(f"{self.name} cannot answer now: {text}")
        # Not its arguments, which may be a password or megabytes.
        command = words[0].decode() if isinstance(words[0], bytes) else words[0]
        advice = _ADVICE.get(kind)
        if advice is None and text.startswith("ERR unknown command"):
            advice = f"it has no {command}, which a move needs"
        raise MoveError(f"{self.name}: {command}: {text}" + (f": {advice}" if advice else ""))

    async def call_all(self, commands: Sequence[Sequence[Word]]) -> list[Reply]:
        """Replies to a pipeline in which no command may fail; see ``call``."""
        replies = await self.run(commands)
        return [self.checked(reply, words) for words, reply in zip(commands, replies, strict=True)]

    async def run(self, commands: Iterable[Sequence[Word]]) -> list[Reply]:
        """Replies to a pipeline, one for each command, errors among them as ``ReplyError``.

        Raises:
            LostError: the connection broke; some of the commands may have run.
        """
        packed = [pack(words) for words in commands]
        try:
            self._writer.write(b"".join(packed))
            # Replies are read meanwhile: a server with many replies to send reads no commands.
            replies: list[Reply]
            _, replies = await together(self._writer.drain(), self._replies(len(packed)))
        except (OSError, TimeoutError, EOFError) as error:
            raise LostError(f"{self.name} does not answer any more: {_why(error)}") from error
        return replies

    async def _replies(self, count: int) -> list[Reply]:
        replies: list[Reply] = []
        bound = self.bytes_read + REPLY_BYTES_MAX
        while True:
            while len(replies) < count:
                reply = self._parser.gets()
                if reply is False:
                    break
                replies.append(reply)
            if len(replies) == count:
                return replies
            async with asyncio.timeout(SILENCE_SECONDS):
                received = await self._reader.read(READ_BYTES)
            if not received:
                raise EOFError("the connection was closed")
            self.bytes_read += len(received)
            if self.bytes_read > bound:
                self.close()
                raise TooLargeError(f"{self.name}: a reply exceeds {REPLY_BYTES_MAX >> 20} MiB")
            self._parser.feed(received)


def _nothing() -> None:
    pass


def pack(words: Sequence[Word]) -> bytes:
    """A command as RESP: each word with its length before it."""
    # hiredis has a hint for tuples of one word only.
    packed: bytes = hiredis.pack_command(tuple(words))  # type: ignore[arg-type]
    return packed


def millis(time_reply: Sequence[bytes]) -> int:
    """Unix milliseconds of the reply to TIME."""
    seconds, micros = time_reply
    return int(seconds) * 1000 + int(micros) // 1000


async def together(*works: Any) -> list[Any]:
    """Run coroutines at once; their results.  If one fails, the others are cancelled first."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks, return_exceptions=True)


async def _streams(address: Address) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    limit = READ_BYTES
    if address.port is None:
        return await asyncio.open_unix_connection(address.host, limit=limit)
    context = _tls(address) if address.with_tls else None
    return await asyncio.open_connection(address.host, address.port, limit=limit, ssl=context)


def _tls(address: Address) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=address.authorities)
        if address.certificate is not None:
            context.load_cert_chain(address.certificate, address.key)
    except OSError as error:
        raise MoveError(f"a file of certificates cannot be used: {error}") from error
    return context


def _why(error: BaseException) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__
