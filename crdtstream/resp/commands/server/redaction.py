"""Commands without the passwords in them, for MONITOR and SLOWLOG."""

from typing import Final

REDACTED: Final = b"(redacted)"
SECRET_PARAMETERS: Final = frozenset(
    {
        b"requirepass",
        b"masterauth",
        b"masteruser",
        b"tls-key-file-pass",
        b"tls-client-key-file-pass",
    }
)
# Subcommands of ACL whose arguments tell of users.
WITH_USERS: Final = frozenset({b"setuser", b"deluser", b"getuser"})
DRY_RUN: Final = [b"acl", b"dryrun"]


def without_secrets(argv: list[bytes]) -> list[bytes]:
    """The arguments as MONITOR and SLOWLOG may show them; nothing else is changed."""
    # ACL DRYRUN user command …: the command may be such a one again, any number of times.
    at = 0
    while len(argv) > at + 3 and [word.lower() for word in argv[at : at + 2]] == DRY_RUN:
        at += 3
    return [*argv[:at], *_without_secrets(argv[at:])] if at else _without_secrets(argv)


def _without_secrets(argv: list[bytes]) -> list[bytes]:
    match argv[0].lower():
        case b"auth":
            return [argv[0], *[REDACTED] * (len(argv) - 1)]
        case b"hello":
            return _hello(argv)
        case b"acl" if len(argv) > 2 and argv[1].lower() in WITH_USERS:
            return [*argv[:2], *[REDACTED] * (len(argv) - 2)]
        case b"config" if len(argv) > 2 and argv[1].lower() == b"set":
            return [
                REDACTED
                if at > 2 and at % 2 and argv[at - 1].lower() in SECRET_PARAMETERS
                else argument
                for at, argument in enumerate(argv)
            ]
    return argv


def _hello(argv: list[bytes]) -> list[bytes]:
    """HELLO's clauses as HELLO reads them; nothing is shown that HELLO would not understand."""
    shown = argv[:2]
    at = 2
    while at < len(argv):
        clause = argv[at].lower()
        if clause == b"auth":
            shown += [argv[at], *[REDACTED] * len(argv[at + 1 : at + 3])]
            at += 3
        elif clause == b"setname":
            shown += argv[at : at + 2]
            at += 2
        else:
            shown += [REDACTED] * (len(argv) - at)
            break
    return shown
