"""Write an entry in the first region, and find it in all others: what `helm test` runs.

Usage: try_regions.py PASSWORD-FILE TLS-FOLDER HOST:PORT...

TLS-FOLDER: of a certificate, its key and the authority; "-": the ports have no TLS.  The entry is
in a stream of its own, which is deleted at the end.

Exit status: 0 all regions have it, 1 one of them does not, and the text says which.
"""

import os
import socket
import ssl
import sys
import time
from pathlib import Path

SECONDS_MAX = 60.0
PAUSE_SECONDS = 0.2


class Client:
    """A connection to one region."""

    def __init__(self, address: str, password: str, tls: str) -> None:
        host, _, port = address.rpartition(":")
        connection = socket.create_connection((host, int(port)), timeout=SECONDS_MAX)
        if tls != "-":
            context = ssl.create_default_context(cafile=f"{tls}/ca.crt")
            context.load_cert_chain(f"{tls}/tls.crt", f"{tls}/tls.key")
            connection = context.wrap_socket(connection, server_hostname=host)
        self.address = address
        self._file = connection.makefile("rwb")
        self("AUTH", password)

    def __call__(self, *words: str) -> bytes | None:
        """Send a command, and return the reply if it is a text or a number."""
        encoded = [word.encode() for word in words]
        parts = [b"$%d\r\n%b\r\n" % (len(one), one) for one in encoded]
        self._file.write(b"*%d\r\n" % len(parts) + b"".join(parts))
        self._file.flush()
        line = self._file.readline().rstrip(b"\r\n")
        kind, text = line[:1], line[1:]
        if kind == b"-" or not line:
            # Not the words: they may be a password.
            raise RuntimeError(f"{self.address}: {words[0]}: {text.decode() or 'no reply'}")
        if kind != b"$":
            return text
        return None if text == b"-1" else self._file.read(int(text) + 2)[:-2]


def main(password_file: str, tls: str, *addresses: str) -> None:
    password = Path(password_file).read_text().splitlines()[0]
    clients = [Client(address, password, tls) for address in addresses]
    key = f"helm-test-{os.urandom(8).hex()}"
    entry = clients[0]("XADD", key, "*", "from", addresses[0])
    print(f"{addresses[0]}: {(entry or b'').decode()}")
    try:
        for client in clients[1:]:
            deadline = time.monotonic() + SECONDS_MAX
            while client("XLEN", key) != b"1":
                if time.monotonic() > deadline:
                    sys.exit(f"{client.address}: the entry has not arrived")
                time.sleep(PAUSE_SECONDS)
            print(f"{client.address}: has it")
    finally:
        clients[0]("DEL", key)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except (OSError, RuntimeError) as error:
        sys.exit(str(error))
