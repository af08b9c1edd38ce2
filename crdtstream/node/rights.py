"""Rights to call the gRPC port: by a login, or by the certificate of some kind of holder."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection

from crdtstream.access.certified import Right
from crdtstream.access.rights import Needs, administers, may_see
from crdtstream.certificates.names import Role
from crdtstream.node.health import ADMIN, BOOTSTRAP, MEMBERSHIP, QUERY, REPLICATION

# Without TLS: services and methods that ask for no password, on a port that other machines can
# reach, and on one of this machine (``access/calls.py``).
OPEN_TO_ALL: Final = frozenset({health.SERVICE_NAME, REPLICATION, f"{MEMBERSHIP}/Join"})
OPEN_HERE: Final = OPEN_TO_ALL | {ADMIN, BOOTSTRAP, MEMBERSHIP, reflection.SERVICE_NAME}
# Methods that ask at each port: a program that may change users can take all rights, for good.
NEVER_OPEN: Final = frozenset({f"{ADMIN}/PushUsers"})
# Calls between regions, by a login of their own; the last are for health reports and consoles.
BETWEEN_REGIONS: Final = (
    *(MEMBERSHIP, BOOTSTRAP),
    *(f"{ADMIN}/Members", f"{ADMIN}/Status", f"{ADMIN}/GroupProgress"),
)

# Conditions on users, by service or method; the Query service asks for rights on each key itself.
USERS_NEED: Final[Mapping[str, Needs]] = {
    **dict.fromkeys((ADMIN, MEMBERSHIP, BOOTSTRAP, reflection.SERVICE_NAME), administers),
    **dict.fromkeys((f"{ADMIN}/Members", f"{ADMIN}/Status"), may_see),
}

# With mutual TLS (``access/certified.py``); what is missing is for operators.  The services of
# regions refuse those that are no members by themselves, and tell a removed one why.
_REGIONS: Final = Right(frozenset({Role.REGION}))
_MEMBERS: Final = Right(frozenset({Role.REGION}), members_only=True)
_OPERATORS_AND_MEMBERS: Final = Right(
    frozenset({Role.OPERATOR, Role.REGION}), by_password=True, members_only=True, needs=may_see
)
RIGHTS: Final = {
    **dict.fromkeys((REPLICATION, MEMBERSHIP, BOOTSTRAP), _REGIONS),
    f"{MEMBERSHIP}/Introduce": _MEMBERS,
    f"{ADMIN}/Members": _OPERATORS_AND_MEMBERS,
    f"{ADMIN}/Status": _OPERATORS_AND_MEMBERS,
    f"{ADMIN}/GroupProgress": replace(_OPERATORS_AND_MEMBERS, needs=administers),
    QUERY: Right(frozenset({Role.OPERATOR, Role.QUERY}), by_password=True),
    health.SERVICE_NAME: Right(frozenset(Role)),
}
