"""Errors of refused requests, in Redis's words."""

from typing import Final, assert_never

from crdtstream.commands.arguments import as_sent
from crdtstream.database.acl.log import Refused
from crdtstream.database.acl.selectors import Denial, Reason

CHANGED_SINCE_QUEUED: Final = (
    "NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC "
    "call. This command is no longer allowed for the following reason: {}"
)
_WHY: Final = {
    Reason.COMMAND: "no permission to execute the command or subcommand",
    Reason.KEY: "no permission to touch the specified keys",
    Reason.CHANNEL: "no permission to access one of the channels used as arguments to the command",
}


def refusal_of(denial: Denial, refused: Refused) -> str:
    """Text for the client: it does not name the key or channel."""
    match denial.reason:
        case Reason.COMMAND:
            return dry_run_of(refused)
        case Reason.KEY:
            return "No permissions to access a key"
        case Reason.CHANNEL:
            return "No permissions to access a channel"
        case Reason.AUTH | Reason.TLS_CERT:
            raise AssertionError("a login is not judged by rights")
        case _:
            assert_never(denial.reason)


def dry_run_of(refused: Refused) -> str:
    """Text of ACL DRYRUN: it names all, as ``as_sent`` reads it."""
    user, subject = as_sent(refused.user), as_sent(refused.subject)
    if refused.reason is Reason.COMMAND:
        return f"User {user} has no permissions to run the '{subject}' command"
    kind = "key" if refused.reason is Reason.KEY else "channel"
    return f"User {user} has no permissions to access the '{subject}' {kind}"


def since_queued(denial: Denial) -> str:
    """Error of EXEC for a command that was allowed when it was queued."""
    return CHANGED_SINCE_QUEUED.format(_WHY[denial.reason])
