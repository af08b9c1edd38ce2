"""The runbooks of ``docs/certificates.md``: each command runs, and prints what the page says.

They run one behind the other in the regions of ``crdtstream up --tls``, as a reader runs them.
``tests/live/test_mutual_tls.py`` changes the authority.
"""

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from crdtstream.local.regions import LocalRegions
from crdtstream.settings.addresses import GRPC_PORT_BASE, RESP_PORT_BASE
from tests.conftest import ROOT, VENV, free_base_port
from tests.patience import LONG, seconds

pytestmark = pytest.mark.live

PAGE: Final = ROOT / "docs" / "certificates.md"
RUNBOOKS: Final = ("Replace them", "Revoke one")
# The folder of ``crdtstream up`` if none is named.
FOLDER: Final = "crdtstream-data"
_SECTION: Final = re.compile(r"^## (.+)$", re.MULTILINE)
_BLOCK: Final = re.compile(r"^```(console)?\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PORT: Final = re.compile(r"\b738(\d)\b")
_SERIAL: Final = re.compile(r"\b[0-9a-f]{30,40}\b")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d(?: \d\d:\d\d:\d\d UTC)?")


class Step(NamedTuple):
    """A command of the page, and what it prints; None: the page does not say."""

    command: str
    printed: list[str] | None


def steps_of(section: str) -> Iterator[Step]:
    """Commands, each on one line."""
    parts = _SECTION.split(PAGE.read_text())
    text = dict(zip(parts[1::2], parts[2::2], strict=True))[section]
    # The first match begins at a fence that opens: each one that closes belongs to a match.
    for kind, block in _BLOCK.findall(text):
        whole = block.replace("\\\n", " ")
        if not kind:
            yield from (Step(line, None) for line in whole.splitlines())
            continue
        for part in re.split(r"^\$ ", whole, flags=re.MULTILINE)[1:]:
            command, *printed = part.splitlines()
            yield Step(command, printed)


def plain(line: str) -> str:
    """A line without serials and times, and as wide as its words."""
    return " ".join(_TIME.sub("TIME", _SERIAL.sub("SERIAL", line)).split())


@pytest.fixture
def base_port(tmp_path: Path) -> Iterator[int]:
    """Three regions that speak TLS, in the folder that the page names; their ports begin here."""
    base_port = free_base_port(3)
    local = LocalRegions(3, tmp_path / FOLDER, base_port=base_port, tls=True)
    try:
        local.start_all()
        assert local.wait_until_healthy()
        yield base_port
    finally:
        local.stop_all()
        local.close()


@pytest.mark.long
def test_the_commands_of_the_page_do_and_print_what_it_says(base_port: int, tmp_path: Path) -> None:
    environment = os.environ | {
        "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    shift = base_port + GRPC_PORT_BASE - RESP_PORT_BASE
    revoked = ""
    for section in RUNBOOKS:
        for command, expected in steps_of(section):
            own = _PORT.sub(lambda found: str(shift + int(found[1])), command)
            if expected is None:
                # It names the serial that was revoked before.
                own = _SERIAL.sub(revoked, own)
            done = subprocess.run(
                own,
                shell=True,
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=seconds(LONG),
                check=False,
            )
            shown = done.stdout.replace(str(tmp_path), "…")
            revoked = (_SERIAL.findall(shown) or [revoked])[-1]
            if expected is not None:
                assert [*map(plain, shown.splitlines())] == [*map(plain, expected)], own
            is_refused = any(line.startswith("error: ") for line in expected or ())
            assert done.returncode == is_refused, f"{own}\n{shown}"


def test_the_runbooks_of_the_page_have_commands() -> None:
    assert [len([*steps_of(section)]) for section in RUNBOOKS] == [5, 4]
