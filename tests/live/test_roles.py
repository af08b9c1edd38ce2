"""The three roles of ``docs/security.md``: the page's own commands print what it says."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest

from crdtstream.local_regions import LocalRegions
from crdtstream.settings import GRPC_PORT_BASE, RESP_PORT_BASE
from tests.conftest import ROOT, free_base_port, program
from tests.live.test_quickstart import Shell, plain, shell_of
from tests.patience import seconds

pytestmark = [pytest.mark.live, pytest.mark.long]

PAGE: Final = (ROOT / "docs" / "security.md").read_text()
_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_HASH: Final = re.compile(r"\b[0-9a-f]{16}\b")


def blocks() -> list[tuple[str, str]]:
    """Kind and text of each block of the section."""
    [section] = re.findall(r"^## Three roles\n(.*?)^## ", PAGE, re.DOTALL | re.MULTILINE)
    return _BLOCK.findall(section)


def run(shell: Shell, block: str) -> None:
    """Commands one after the other; what each prints is on the page."""
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        first, *rest = part.splitlines()
        # A command of several lines prints nothing.
        goes_on = first.endswith(("<<END", "do", "{"))
        command, expected = (part, []) if goes_on else (first, rest)
        printed = [one for one in shell.run(command) if one]
        assert [*map(words, printed)] == [*map(words, expected)], command


def words(line: str) -> str:
    return plain(_HASH.sub("HASH", line))


def test_the_roles_of_the_page_may_do_what_it_says_and_no_more(tmp_path: Path) -> None:
    program("redis-cli", hint="apt-get install redis-tools")
    base_port = free_base_port(3)
    shift = base_port + GRPC_PORT_BASE - RESP_PORT_BASE
    (_, prepare), *then = [
        (
            kind,
            re.sub(
                r"\b738(\d)\b",
                lambda found: str(shift + int(found[1])),
                re.sub(r"\b638(\d)\b", lambda found: str(base_port + int(found[1])), text),
            ),
        )
        for kind, text in blocks()
    ]
    printed = next(text for kind, text in then if not kind)
    local = LocalRegions(3, tmp_path / "secure", base_port=base_port, tls=True)
    with shell_of("bash", tmp_path) as shell:
        try:
            # Stopped once, as the page wants it.
            local.start_all()
            assert local.wait_until_healthy()
            local.stop_all()
            run(shell, prepare)
            local.start_all()
            assert local.wait_until_healthy()
            for kind, text in then:
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
        finally:
            local.stop_all()
            local.close()
