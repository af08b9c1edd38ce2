"""One TLS connection, with the interface of asyncio's transports.

asyncio passes each byte of TLS through buffers in memory and some ten calls, which costs more than
a command does.  Here OpenSSL has the socket itself:

    socket readable ── SSL_read ──> protocol.data_received         write ── SSL_write ──> socket
                                                                     └── unsent, while it is full

Each direction may have to wait for the socket to become readable or writable, whichever OpenSSL
wants (``_Wait``).  OpenSSL may also hold decrypted bytes while the socket has nothing to read, and
then no event would come for them: reading goes on by itself.

Always so: OpenSSL gets the same bytes again after a write that had to wait, so the first of the
unsent chunks only ever gets longer at its end.  ``close_notify`` is sent only behind everything
that the client is owed: a stream that was cut looks cut to it.  A stream that ends without the
client's ``close_notify``, or with an error, is lost at once; nothing that came after it is read.
"""

import asyncio
import contextlib
import socket
import ssl
from collections import deque
from enum import Enum
from typing import Any, Final, cast

from crdtstream.core.size import Size

# The payload of one record of TLS, the most that one SSL_read returns.
RECORD_BYTES: Final = Size(1 << 14, least=1, most=1 << 14)
# A client that sends as fast as it is read takes turns with the others.
READ_AT_ONCE_MAX: Final = Size(1 << 18, least=1)
# Unsent bytes beyond which the protocol is asked to pause, unless it says otherwise; asyncio's.
UNSENT_BYTES_MAX: Final = Size(1 << 16, least=1)


class _Wait(Enum):
    """Event of the socket that one direction of OpenSSL waits for."""

    NONE = "none"
    READABLE = "readable"
    WRITABLE = "writable"


class TlsTransport(asyncio.Transport):
    """A connection whose handshake is done.

    Args:
        extra: see ``get_extra_info``; ``socket``, ``peername`` and ``sockname`` are added.

    Raises:
        OSError: the client has gone already.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        own: ssl.SSLSocket,
        extra: dict[str, Any],
    ) -> None:
        names = {"socket": own, "peername": own.getpeername(), "sockname": own.getsockname()}
        super().__init__({**extra, **names})
        self._loop = loop
        self._socket = own
        self._fd = own.fileno()
        self._protocol = cast(asyncio.Protocol, None)
        self._is_paused = False
        self._read_waits = _Wait.NONE
        self._write_waits = _Wait.NONE
        # The client's end: it sends no more.
        self._has_ended = False
        # Bytes that OpenSSL has not taken, or has in a record that the system has not taken.
        self._unsent: deque[bytes | bytearray | memoryview] = deque()
        self._unsent_bytes = 0
        self._high = UNSENT_BYTES_MAX.value
        self._low = self._high // 4
        self._protocol_is_paused = False
        self._is_closing = False
        self._is_lost = False
        # Our own end: wanted behind what is unsent, and sent.
        self._wants_end = False
        self._sent_end = False
        self._watches_read = False
        self._watches_write = False

    def start(self, protocol: asyncio.Protocol) -> None:
        """Tell the protocol, and begin to read for it."""
        self._protocol = protocol
        protocol.connection_made(self)
        self._read_on()
        self._watch()

    # --- Reading ------------------------------------------------------------------------------

    def is_reading(self) -> bool:
        return not (self._is_paused or self._is_closing or self._has_ended)

    def pause_reading(self) -> None:
        self._is_paused = True
        self._watch()

    def resume_reading(self) -> None:
        self._is_paused = False
        self._read_on()
        self._watch()

    def _on_readable(self) -> None:
        if self._write_waits is _Wait.READABLE:
            self._write_waits = _Wait.NONE
            self._flush()
            self._watch()
        self._read()

    def _read(self) -> None:
        """Pass on what has come, at most READ_AT_ONCE_MAX."""
        if self._sent_end:
            self._drain()
            return
        if not self.is_reading() or self._is_lost:
            return
        self._read_waits = _Wait.NONE
        record_bytes = RECORD_BYTES.value
        data = b""
        error: OSError | None = None
        try:
            data = self._socket.read(record_bytes)
            if len(data) == record_bytes:
                self._read_more(data)
                return
        except ssl.SSLWantReadError:
            return
        except ssl.SSLWantWriteError:
            self._read_waits = _Wait.WRITABLE
            self._watch()
            return
        except ssl.SSLZeroReturnError:
            pass
        except OSError as failed:
            error = failed
        if error is not None:
            self._lose(error)
        elif data:
            self._protocol.data_received(data)
        else:
            self._end_reading()

    def _read_more(self, first: bytes) -> None:
        """Pass on a full record with those behind it."""
        chunks, size, is_end = [first], len(first), False
        error: OSError | None = None
        try:
            while size < READ_AT_ONCE_MAX.value:
                data = self._socket.read(RECORD_BYTES.value)
                if not data:
                    is_end = True
                    break
                chunks.append(data)
                size += len(data)
                if len(data) < RECORD_BYTES.value:
                    break
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLWantWriteError:
            self._read_waits = _Wait.WRITABLE
        except ssl.SSLZeroReturnError:
            is_end = True
        except OSError as failed:
            error = failed
        # These came in whole records, before anything that is wrong.
        self._protocol.data_received(b"".join(chunks))
        if error is not None:
            self._lose(error)
        elif is_end:
            self._end_reading()
        else:
            self._read_on()
            self._watch()

    def _read_on(self) -> None:
        """Come back for bytes that OpenSSL holds decrypted: no event tells of them."""
        if not self._sent_end and self.is_reading() and self._socket.pending():
            self._loop.call_soon(self._read)

    def _end_reading(self) -> None:
        """The client sent its ``close_notify``."""
        if self._has_ended or self._is_closing:
            return
        self._has_ended = True
        self._watch()
        if not self._protocol.eof_received():
            self.close()

    def _drain(self) -> None:
        """Throw away what comes behind our own end, until the client's.

        OpenSSL is done with the socket: this is not decrypted, so nothing may look at it.
        """
        if self._is_lost or self._has_ended:
            return
        try:
            data = self._socket.recv(RECORD_BYTES.value)
        except BlockingIOError:
            return
        except OSError as error:
            self._lose(error)
            return
        if not data:
            self._end_reading()

    # --- Writing ------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview) -> None:
        size = len(data)
        if self._is_closing or self._wants_end or not size:
            return
        if not self._unsent:
            sent = self._send(data)
            if sent == size or self._is_lost:
                return
            data = memoryview(data)[sent:]
            size -= sent
        self._unsent.append(data)
        self._unsent_bytes += size
        self._watch()
        if self._unsent_bytes > self._high and not self._protocol_is_paused:
            self._protocol_is_paused = True
            self._protocol.pause_writing()

    def _send(self, data: bytes | bytearray | memoryview) -> int:
        """Give OpenSSL as much as it takes.

        Returns:
            How much that is.  The rest must be given again just as it is, as its first record may
            be on its way.
        """
        sent = 0
        try:
            sent = self._socket.write(data)
            while sent < len(data):
                sent += self._socket.write(memoryview(data)[sent:])
        except ssl.SSLWantWriteError:
            self._write_waits = _Wait.WRITABLE
        except ssl.SSLWantReadError:
            self._write_waits = _Wait.READABLE
        except OSError as error:
            self._lose(error)
        return sent

    def _on_writable(self) -> None:
        if self._read_waits is _Wait.WRITABLE:
            self._read_waits = _Wait.NONE
            self._read()
        if self._write_waits is _Wait.WRITABLE:
            self._write_waits = _Wait.NONE
        self._flush()
        self._watch()

    def _flush(self) -> None:
        """Send what is unsent, as far as the system takes it."""
        unsent = self._unsent
        while unsent and self._write_waits is _Wait.NONE and not self._is_lost:
            first = self._joined_first()
            sent = self._send(first)
            if not unsent:
                # It is lost.
                return
            self._unsent_bytes -= sent
            if sent == len(first):
                unsent.popleft()
            else:
                unsent[0] = memoryview(first)[sent:]
        if self._protocol_is_paused and self._unsent_bytes <= self._low and not self._is_closing:
            self._protocol_is_paused = False
            self._protocol.resume_writing()
        if not unsent and not self._is_lost:
            self._note_all_sent()

    def _joined_first(self) -> bytes | bytearray | memoryview:
        """The first unsent chunk; short ones that follow join it, for fewer records."""
        unsent = self._unsent
        first = unsent[0]
        if len(first) >= RECORD_BYTES.value or len(unsent) == 1:
            return first
        parts, size = [unsent.popleft()], len(first)
        while unsent and size + len(unsent[0]) <= RECORD_BYTES.value:
            size += len(unsent[0])
            parts.append(unsent.popleft())
        joined = b"".join(parts)
        unsent.appendleft(joined)
        return joined

    def _note_all_sent(self) -> None:
        if self._wants_end and not self._sent_end:
            self._send_end()
        if self._is_closing:
            self._lose(None, is_whole=True)

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._wants_end or self._is_closing:
            return
        self._wants_end = True
        if not self._unsent:
            self._send_end()
            self._watch()

    def _send_end(self) -> None:
        """Send ``close_notify`` and TCP's end; what the client sends is thrown away from now on."""
        self._sent_end = True
        self._say_goodbye()
        with contextlib.suppress(OSError):
            # From here on, reading and closing are plain TCP's.
            self._socket.shutdown(socket.SHUT_WR)

    def get_write_buffer_size(self) -> int:
        return self._unsent_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """As of asyncio's transports; to be set before anything is written."""
        self._high = UNSENT_BYTES_MAX.value if high is None else high
        self._low = self._high // 4 if low is None else low

    # --- Ending -------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        return self._is_closing

    def close(self) -> None:
        """Read no more, and hang up when everything is sent."""
        if self._is_closing:
            return
        self._is_closing = True
        if self._unsent:
            self._watch()
        else:
            self._lose(None, is_whole=True)

    def abort(self) -> None:
        """Hang up at once; to the client it looks cut, as the protocol may have more for it."""
        self._lose(None)

    def _lose(self, error: OSError | None, *, is_whole: bool = False) -> None:
        """The connection is lost; the protocol learns it in the next turn.

        Args:
            is_whole: everything that was written has been sent.
        """
        if self._is_lost:
            return
        self._is_lost = self._is_closing = True
        self._watch()
        self._unsent.clear()
        self._unsent_bytes = 0
        self._loop.call_soon(self._finish, error, is_whole)

    def _finish(self, error: OSError | None, is_whole: bool) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            if is_whole and not self._sent_end:
                self._say_goodbye()
            self._socket.close()

    def _say_goodbye(self) -> None:
        """Send ``close_notify``; the client's is not waited for."""
        with contextlib.suppress(OSError, ValueError):
            self._socket.unwrap()

    def _watch(self) -> None:
        """Have the event loop call for what is waited for now, and for nothing else."""
        is_open = not self._is_lost
        may_read = self.is_reading() and self._read_waits is not _Wait.WRITABLE
        reads = is_open and (may_read or self._write_waits is _Wait.READABLE)
        writes = is_open and (
            self._read_waits is _Wait.WRITABLE or self._write_waits is _Wait.WRITABLE
        )
        if reads != self._watches_read:
            self._watches_read = reads
            if reads:
                self._loop.add_reader(self._fd, self._on_readable)
            else:
                self._loop.remove_reader(self._fd)
        if writes != self._watches_write:
            self._watches_write = writes
            if writes:
                self._loop.add_writer(self._fd, self._on_writable)
            else:
                self._loop.remove_writer(self._fd)
