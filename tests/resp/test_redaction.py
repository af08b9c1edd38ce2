"""Commands and logs that show other clients' commands never show a password."""

import pytest

from crdtstream.resp.commands.server.redaction import without_secrets


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("HELLO", "HELLO"),
        ("HELLO 3", "HELLO 3"),
        ("HELLO 3 SETNAME me", "HELLO 3 SETNAME me"),
        ("hello 3 AUTH u p SETNAME me", "hello 3 AUTH (redacted) (redacted) SETNAME me"),
        (
            "HELLO 2 AUTH u p AUTH u p",
            "HELLO 2 AUTH (redacted) (redacted) AUTH (redacted) (redacted)",
        ),
        # SETNAME's value is no clause.
        (
            "HELLO 3 SETNAME auth AUTH u p",
            "HELLO 3 SETNAME auth AUTH (redacted) (redacted)",
        ),
        ("HELLO 3 AUTH p", "HELLO 3 AUTH (redacted)"),
        ("HELLO 3 ATUH u p", "HELLO 3 (redacted) (redacted) (redacted)"),
        ("AUTH u p", "AUTH (redacted) (redacted)"),
        (
            "CONFIG SET requirepass p timeout 5",
            "CONFIG SET requirepass (redacted) timeout 5",
        ),
        ("XADD auth * p p", "XADD auth * p p"),
    ],
)
def test_secrets_are_hidden_where_the_command_would_take_them(line: str, shown: str) -> None:
    argv = [word.encode() for word in line.split()]
    assert without_secrets(argv) == [word.encode() for word in shown.split()]
