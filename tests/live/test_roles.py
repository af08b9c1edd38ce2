"""Users of ``docs/security.md`` and ``docs/acl.md``: the pages' commands print what they say."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from crdtstream.settings.addresses import RESP_PORT_BASE
from tests.conftest import ROOT, free_base_port, program
from tests.live.test_quickstart import Shell, plain, shell_of
from tests.patience import seconds

pytestmark = [pytest.mark.live, pytest.mark.long]

_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
# Hashes of users and passwords, and ages.
_OF_A_RUN: Final = re.compile(r"\b[0-9a-f]{16}\b|(?<=#)[0-9a-f]{64}|(?<=#)[0-9a-f]+…|\d+\.\d+")


def blocks(page: str, section: str, base_port: int) -> list[tuple[str, str]]:
    """Kind and text of each block of a section, for regions on other ports."""
    text = (ROOT / "docs" / page).read_text()
    [found] = re.findall(rf"^## {section}\n(.*?)^## ", text, re.DOTALL | re.MULTILINE)
    return [(kind, of_ports(block, base_port)) for kind, block in _BLOCK.findall(found)]


def run(shell: Shell, block: str) -> None:
    """Commands one after the other; what each prints is on the page."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        first, *rest = part.splitlines()
        # A command of several lines prints nothing.
        goes_on = first.endswith(("<<END", "do", "{"))
        command, expected = (part, []) if goes_on else (first, rest)
        printed = [one for one in shell.run(command) if one]
        assert re.fullmatch(pattern_of(expected), "\n".join(map(words, printed))), (
            command,
            printed,
        )


def words(line: str) -> str:
    return plain(_OF_A_RUN.sub("SOME", line))


def pattern_of(expected: list[str]) -> str:
    """Lines of a page; … stands for anything in its line, and alone for any lines."""
    return "\n".join(
        "(?s:.*)" if line.strip() == "…" else re.escape(words(line)).replace("…", ".*")
        for line in expected
    )


def test_the_roles_of_the_page_may_do_what_it_says_and_no_more(tmp_path: Path) -> None:
    program("redis-cli", hint="apt-get install redis-tools")
    base_port = free_base_port(3)
    found = blocks("security.md", "Three roles", base_port)
    printed = next(text for kind, text in found if not kind)
    with shell_of("bash", tmp_path) as shell, ended_with(shell):
        for kind, text in found:
            if kind == "console":
                run(shell, text)
            elif kind == "python":
                done = subprocess.run(
                    [sys.executable, "-c", text],
                    cwd=tmp_path,
                    capture_output=True,
                    text=True,
                    timeout=seconds(),
                    check=False,
                )
                assert (done.stdout, done.returncode) == (printed, 0), done.stderr
        for path in tmp_path.rglob("*"):
            # Certificates are for everybody.
            is_public = path.name in {"cert.pem", "ca.pem"}
            assert is_public or not path.stat().st_mode & 0o077, path
        passwords = {path.read_text().strip() for path in tmp_path.glob("*.password")}
        assert len(passwords) == 3
        for path in [*tmp_path.glob("*.acl"), *tmp_path.glob("secure/region-*.*")]:
            assert not any(one in path.read_text() for one in passwords), path


def test_the_users_of_the_acl_page_come_in_at_the_first_start(tmp_path: Path) -> None:
    program("redis-cli", hint="apt-get install redis-tools")
    base_port = free_base_port(3)
    with shell_of("bash", tmp_path) as shell, ended_with(shell):
        for section in ("An example", "The same users in all regions"):
            for kind, text in blocks("acl.md", section, base_port):
                assert kind == "console"
                run(shell, text)


def of_ports(text: str, base_port: int) -> str:
    """A block of the page whose regions have other ports."""
    shift = base_port - RESP_PORT_BASE
    text = re.sub(r"\b[67]38[1-3]\b", lambda found: str(int(found[0]) + shift), text)
    return text.replace("crdtstream up ", f"crdtstream up --base-port {base_port} ")


@contextmanager
def ended_with(shell: Shell) -> Iterator[None]:
    """End all that the shell started, before the shell ends."""
    try:
        yield
    finally:
        shell.run("kill $(jobs -p); wait")
