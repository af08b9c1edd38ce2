"""Commands on clusters and functions.  A region has neither, and answers like such a Redis."""

from typing import Final, NoReturn

from crdtstream.commands.arguments import as_sent
from crdtstream.commands.reply import CommandError, Reply, RespMap
from crdtstream.commands.subcommands import help_reply
from crdtstream.core.ids import Millis
from crdtstream.core.replica import Replica

NO_CLUSTER: Final = "ERR This instance has cluster support disabled"
FUNCTION_HELP: Final = (
    "FUNCTION <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "LIST [LIBRARYNAME PATTERN] [WITHCODE]",
    "    Return the libraries of functions: there are none.",
    "STATS",
    "    Return the function that runs, and the engines: there are none.",
    "HELP",
    "    Print this help.",
)


def no_cluster(_replica: Replica, _now: Millis, _argv: list[bytes]) -> NoReturn:
    """CLUSTER …, READONLY, READWRITE, ASKING."""
    raise CommandError(NO_CLUSTER)


def function_help(_replica: Replica, _now: Millis, _argv: list[bytes]) -> Reply:
    """FUNCTION HELP."""
    return help_reply(FUNCTION_HELP)


def function_list(_replica: Replica, _now: Millis, argv: list[bytes]) -> Reply:
    """FUNCTION LIST [LIBRARYNAME pattern] [WITHCODE]: none."""
    words = iter(argv[2:])
    given: set[bytes] = set()
    for word in words:
        option = word.lower()
        if option not in {b"libraryname", b"withcode"} - given:
            raise CommandError(f"ERR Unknown argument {as_sent(word)}")
        given.add(option)
        if option == b"libraryname" and next(words, None) is None:
            raise CommandError("ERR library name argument was not given")
    return []


def function_stats(_replica: Replica, _now: Millis, _argv: list[bytes]) -> Reply:
    """FUNCTION STATS: nothing runs, and there is nothing that could."""
    counts = RespMap([(b"libraries_count", 0), (b"functions_count", 0)])
    return RespMap([(b"running_script", None), (b"engines", RespMap([(b"LUA", counts)]))])
