"""EVAL, EVALSHA, SCRIPT: the known scripts run, any other one is refused with a sentence.

A known script exists without SCRIPT LOAD, and stays after SCRIPT FLUSH: nothing is cached.  EVALSHA
of any other answers NOSCRIPT, as Redis does, so a client goes on to load the script, and hears why
that cannot be.
"""

from hashlib import sha1
from typing import Final

from crdtstream.commands.arguments import integer
from crdtstream.commands.reply import OK, CommandError, Reply
from crdtstream.commands.scripts.known import KNOWN_SCRIPTS, Call, ScriptError
from crdtstream.commands.subcommands import help_reply
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica

NO_SCRIPT: Final = "NOSCRIPT No matching script. Please use EVAL."
SHA1_DIGITS: Final = 40
UNKNOWN_SCRIPT: Final = (
    "ERR this script is not among those that run here: there is no Lua, only the scripts of "
    "redis-py's Lock, of walrus's Lock and cas and of Redisson's RStream are known, by their "
    "SHA-1; do with MULTI and WATCH what it does"
)

HELP: Final = (
    "SCRIPT <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "EXISTS <sha1> [<sha1> ...]",
    "    Return whether the scripts with these SHA-1 digests are known.",
    "FLUSH [ASYNC|SYNC]",
    "    Do nothing: known scripts stay.",
    "KILL",
    "    Kill the currently executing Lua script.",
    "LOAD <script>",
    "    Return the SHA-1 digest of a known script without executing it.",
    "HELP",
    "    Print this help.",
)


def evaluate(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """EVAL script numkeys [key …] [arg …].

    Raises:
        CommandError: the number of keys is wrong, the script is not known, or one of its commands
            fails.  Nothing has changed then.
    """
    return _run(replica, now, _digest(argv[1]), argv, unknown=UNKNOWN_SCRIPT)


def evaluate_by_digest(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """EVALSHA sha1 numkeys [key …] [arg …]."""
    if len(argv[1]) != SHA1_DIGITS:
        raise CommandError(NO_SCRIPT)
    return _run(replica, now, argv[1].lower(), argv, unknown=NO_SCRIPT)


def digest_of(argv: list[bytes]) -> bytes:
    """Digest of the script that an EVAL or EVALSHA names."""
    return _digest(argv[1]) if argv[0].lower() == b"eval" else argv[1].lower()


def _digest(script: bytes) -> bytes:
    return sha1(script, usedforsecurity=False).hexdigest().encode()


def _run(replica: Replica, now: Millis, digest: bytes, argv: list[bytes], *, unknown: str) -> Reply:
    key_count = integer(argv[2])
    if key_count > len(argv) - 3:
        raise CommandError("ERR Number of keys can't be greater than number of args")
    if key_count < 0:
        raise CommandError("ERR Number of keys can't be negative")
    run = KNOWN_SCRIPTS.get(digest)
    if run is None:
        raise CommandError(unknown)
    keys, args = argv[3 : 3 + key_count], argv[3 + key_count :]
    try:
        return run(Call(replica, now, keys, args))
    except ScriptError as error:
        raise CommandError(
            f"{error.text} script: {digest.decode()}, on @user_script:{error.line}."
        ) from error


def load(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """SCRIPT LOAD script: its SHA-1, if it is known."""
    digest = _digest(argv[2])
    if digest not in KNOWN_SCRIPTS:
        raise CommandError(UNKNOWN_SCRIPT)
    return digest


def exist(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """SCRIPT EXISTS sha1 [sha1 …]: 1 for each that is known, else 0."""
    return [int(digest.lower() in KNOWN_SCRIPTS) for digest in argv[2:]]


def flush(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """SCRIPT FLUSH [ASYNC | SYNC]: nothing is cached, so nothing is dropped."""
    if len(argv) > 3 or (len(argv) == 3 and argv[2].lower() not in (b"async", b"sync")):
        raise CommandError("ERR SCRIPT FLUSH only support SYNC|ASYNC option")
    return OK


def kill(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """SCRIPT KILL: none ever runs while another command is read."""
    raise CommandError("NOTBUSY No scripts in execution right now.")


def show_help(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    return help_reply(HELP)
