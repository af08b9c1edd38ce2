"""Replies that commands with subcommands share: HELP, and the error for unknown words."""

from collections.abc import Iterable
from typing import Final

from crdtstream.commands.arguments import as_sent
from crdtstream.commands.reply import CommandError, Reply, Status

# How much of an unknown word an error repeats.
SHOWN_BYTES_MAX: Final = 128


def help_reply(lines: Iterable[str]) -> Reply:
    """HELP's answer: a status line each."""
    return [Status(line.encode()) for line in lines]


def bad_subcommand(argv: list[bytes]) -> CommandError:
    """An option that the subcommand does not know, or too many or too few."""
    return CommandError(
        "ERR unknown subcommand or wrong number of arguments for "
        f"'{as_sent(argv[1][:SHOWN_BYTES_MAX])}'. Try {as_sent(argv[0]).upper()} HELP."
    )
