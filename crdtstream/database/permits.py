"""Rights of users for programs that do not speak Redis's protocol: gRPC calls, HTTP requests."""

from crdtstream.commands.reply import CommandError
from crdtstream.database.acl.log import Context, Refused
from crdtstream.database.acl.selectors import Reason
from crdtstream.database.acl.users import User
from crdtstream.database.database import Database


class Permits:
    """The rights of one user, as they are at the moment of asking."""

    __slots__ = ("_database", "_user")

    def __init__(self, database: Database, user: User) -> None:
        self._database = database
        self._user = user

    @property
    def user(self) -> bytes | None:
        """Name of the user."""
        return self._user.name

    @property
    def is_unlimited(self) -> bool:
        """True if the user may do everything."""
        return self._user.is_unlimited

    def may_call(self, argv: list[bytes]) -> bool:
        """True if the user may run this command with these keys."""
        if self._user.is_unlimited:
            return True
        handler = self._database.find(argv)
        assert not isinstance(handler, CommandError), "rights are named by commands that exist"
        return self._database.denial(self._user, handler, argv) is None

    def note_refused(self, argv: list[bytes], address: str, *, over: str) -> None:
        """Keep a refusal for ACL LOG: a call or page that may not do what this command does."""
        handler = self._database.find(argv)
        assert not isinstance(handler, CommandError), "rights are named by commands that exist"
        denial = self._database.denial(self._user, handler, argv)
        told = self._database.on_program_refused
        if denial is not None and told is not None:
            subject = handler.name if denial.reason is Reason.COMMAND else argv[denial.at]
            told(Refused(denial.reason, Context(over), subject, self._user.name), address)

    def may_administer(self) -> bool:
        """True if the user may run all commands of the category ``@admin``."""
        return self._user.has_category(b"admin")


def log_in(database: Database, name: bytes, password: bytes) -> Permits | None:
    """The rights of a user; None if name or password is wrong, or the user is off."""
    user = database.users.log_in(name, password)
    return None if user is None else Permits(database, user)
