"""Refused logins of calls and pages as ACL LOG has them, beside those of Redis clients."""

from typing import Final

from crdtstream.access.logins import Door, RefusedLogin, Verdict
from crdtstream.database.acl.log import Context, Refused
from crdtstream.database.acl.selectors import Reason
from crdtstream.database.database import Database

_CONTEXTS: Final = {Door.GRPC: Context.GRPC, Door.HTTP: Context.HTTP}


def note_refused(database: Database, login: RefusedLogin) -> None:
    """Keep a refused login; a call or page that its user has no right to is like a command."""
    reason = Reason.AUTH if login.verdict is Verdict.WRONG else Reason.COMMAND
    refused = Refused(reason, _CONTEXTS[login.door], login.what.encode(), login.user)
    if database.on_program_refused is not None:
        database.on_program_refused(refused, login.address)
