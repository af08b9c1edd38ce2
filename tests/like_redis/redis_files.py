"""Redis's own test files, run against nodes.

Redis's harness, in Tcl, starts ``src/redis-server`` with settings of its own and asks it; here that
program is a node (``as_redis_server.py``).  No word of Redis's sources is in this repository:
``make test-long`` fetches them with ``tools/redis_tests.sh``, and REDIS_SOURCE=FOLDER names others.

``redis_files.txt`` names the tests that do not apply to a node, each with its reason.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric import rsa

from tests.certificates.making import BOTH, make, make_authority
from tests.conftest import ROOT, free_base_port, program, require
from tests.patience import LONG, seconds

UNITS: Final = ("auth", "acl", "acl-v2", "tls")
LISTED: Final = Path(__file__).with_name("redis_files.txt")
OTHER_SOURCE: Final = "REDIS_SOURCE"
# The harness takes ports from here on, two for each server of at most four at once.
PORTS: Final = 20
_COLORS: Final = re.compile(r"\x1b\[[0-9;]*m")
_OUTCOME: Final = re.compile(
    r"^\[(ok|err|exception|skip)\]: (.*?)(?: \(\d+ ms\)| in tests/unit/\S+)?$", re.MULTILINE
)


@dataclass(frozen=True)
class Listed:
    """A test that does not apply.

    Attributes:
        runs: False: not even its failure can be shown, as it stops those behind it.
    """

    unit: str
    runs: bool
    name: str
    reason: str


def listed(unit: str) -> dict[str, Listed]:
    """The tests of a file that do not apply, by name."""
    found = {}
    for line in LISTED.read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        where, verb, name, reason = line.split(" | ")
        assert verb in ("fails", "skipped"), line
        assert reason, line
        if where == unit:
            assert name not in found, f"twice: {line}"
            found[name] = Listed(where, verb == "fails", name, reason)
    return found


class RedisFiles:
    """A folder in which the harness runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        source = Path(os.environ.get(OTHER_SOURCE) or ROOT / ".tools" / "redis-tests")
        has_tests = (source / "tests" / "test_helper.tcl").exists()
        require(has_tests, "Redis's own tests: tools/redis_tests.sh, or REDIS_SOURCE=FOLDER")
        self.tclsh = program("tclsh", hint="apt-get install tcl tcl-tls")
        shutil.copytree(source / "tests", folder / "tests", ignore=shutil.ignore_patterns("tmp"))
        server = folder / "src" / "redis-server"
        server.parent.mkdir()
        command = f'"{sys.executable}" -m tests.like_redis.as_redis_server "$@"'
        server.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec {command}\n')
        server.chmod(0o755)

    def run(self, unit: str, *, skipped: list[str]) -> dict[str, str]:
        """Outcome of each test by its name: ``ok``, ``skip``, or what was wrong."""
        skips = self.folder / "skipped.txt"
        skips.write_text("\n".join(skipped))
        words = ["--single", f"unit/{unit}", "--clients", "1", "--durable", "--singledb"]
        words += ["--baseport", str(free_base_port(PORTS)), "--portcount", str(PORTS)]
        words += ["--skipfile", str(skips)]
        if unit == "tls":
            self._make_certificates()
            words.append("--tls")
        with subprocess.Popen(
            [self.tclsh, "tests/test_helper.tcl", *words],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # A group of its own, which can be ended with all that it started.
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=seconds(LONG))
            finally:
                os.killpg(process.pid, signal.SIGKILL)
        return outcomes_of(output)

    def _make_certificates(self) -> None:
        """The files that ``utils/gen-test-certs.sh`` of Redis makes."""
        require(self._has_tls(), "TLS for Tcl: apt-get install tcl-tls")
        authority = make_authority()
        files = {"ca.crt": authority.pem}
        for name, usages in (("server", BOTH[1:]), ("client", BOTH[:1]), ("redis", BOTH)):
            key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
            leaf = make(authority, name, dns=("localhost",), uris=(), usages=usages, key=key)
            files |= {f"{name}.crt": leaf.pem, f"{name}.key": leaf.key_pem}
        folder = self.folder / "tests" / "tls"
        folder.mkdir()
        for name, contents in files.items():
            (folder / name).write_bytes(contents)
            (folder / name).chmod(0o600)

    def _has_tls(self) -> bool:
        asked = "exit [catch {package require tls}]\n"
        return subprocess.run([self.tclsh], input=asked, text=True, check=False).returncode == 0


def outcomes_of(output: str) -> dict[str, str]:
    """Outcomes by name, from what the harness prints.

    An error outside of a test has its first line for a name, so it is in no list.
    """
    plain = _COLORS.sub("", output).partition("The following tests failed")[0]
    found: dict[str, str] = {}
    matches = list(_OUTCOME.finditer(plain))
    for match, then in zip(matches, [*matches[1:], None], strict=True):
        verb, name = match.groups()
        if verb in ("err", "exception"):
            verb = plain[match.end() : then.start() if then else None].strip() or verb
        # Of two tests with the same name, the failure counts.
        if found.get(name, "ok") in ("ok", "skip"):
            found[name] = verb
    return found
