"""CONFIG by users without ``@admin``: no file, no port, no password is theirs to change (S12)."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import redis
from redis.exceptions import NoPermissionError

from tests.resp.node import Node
from tests.resp.tls import Party

# By each of these a client would write where it likes, read what it likes, or let others in.
PROTECTED: Final = {
    "dir": "/tmp",
    "aclfile": "/tmp/users.acl",
    "requirepass": "",
    "tls-cert-file": "/tmp/cert.pem",
    "tls-key-file": "/tmp/key.pem",
    "tls-key-file-pass": "x",
    "tls-ca-cert-file": "/tmp/ca.pem",
    "tls-auth-clients": "no",
    "tls-auth-clients-user": "CN",
    "tls-port": "0",
    "port": "0",
}
# Everything but what an operator does, and a user that may also look at parameters.
RULES: Final = "~* &* +@all -@admin"
LOOKING: Final = f"{RULES} +config|get"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    party = Party.of(tmp_path_factory.mktemp("party"))
    with party.running(users=(f"app on >app {RULES}", f"looks on >looks {LOOKING}")) as (node, _):
        yield node


def client(node: Node, user: str | None = None) -> Any:
    return redis.Redis(
        port=node.port, username=user, password=user, protocol=2, decode_responses=True
    )


@pytest.mark.parametrize("name", PROTECTED)
@pytest.mark.parametrize("user", ["app", "looks"])
def test_a_user_without_admin_sets_nothing(node: Node, user: str, name: str) -> None:
    with client(node, user) as app:
        with pytest.raises(NoPermissionError, match=r"no permissions to run the 'config\|set'"):
            app.execute_command("CONFIG", "SET", name, PROTECTED[name])
        with app.pipeline(transaction=True) as transaction:
            transaction.execute_command("CONFIG", "SET", name, PROTECTED[name])
            with pytest.raises(NoPermissionError):
                transaction.execute()


@pytest.mark.parametrize("name", ["dir", "aclfile"])
def test_an_operator_does_not_move_files_either(node: Node, name: str) -> None:
    """As in Redis: a thief of an operator's password writes no file of its choice."""
    with (
        client(node) as operator,
        pytest.raises(redis.ResponseError, match="can't set immutable config"),
    ):
        operator.execute_command("CONFIG", "SET", name, PROTECTED[name])


def test_other_ways_to_write_a_file_are_closed_as_well(node: Node, tmp_path: Path) -> None:
    with client(node, "app") as app:
        for words in (("CONFIG", "REWRITE"), ("ACL", "SAVE"), ("ACL", "LOAD"), ("BGSAVE",)):
            with pytest.raises(NoPermissionError):
                app.execute_command(*words)
