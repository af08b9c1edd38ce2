"""Ask the node of this container whether its event loop turns; exit status 0: it does.

Usage: healthcheck.py [PORT]     8380 if absent

The page is asked for without TLS, and with it if that fails.  The certificate is not looked at: it
is this container's own node that answers.  Only modules that Python starts with quickly are used.
"""

import socket
import sys

SECONDS_MAX = 4.0


def is_healthy(port: int, *, with_tls: bool) -> bool:
    connection = socket.create_connection(("127.0.0.1", port), timeout=SECONDS_MAX)
    if with_tls:
        import ssl

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = context.wrap_socket(connection)
    with connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return connection.recv(64).split(b" ")[1:2] == [b"200"]


def main(port: int) -> int:
    for with_tls in (False, True):
        try:
            if is_healthy(port, with_tls=with_tls):
                return 0
        except OSError as error:
            reason = error
        else:
            reason = OSError("no page with status 200")
    print(f"127.0.0.1:{port}: {reason}")
    return 1


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 8380))
