"""Jedis over TLS, with tests of its own in Java, see tests/clients/java."""

import subprocess
from pathlib import Path

import pytest

from tests.clients.secured import PASSWORD, Secured
from tests.conftest import ROOT, program, require
from tests.patience import LONG, seconds

FOLDER = ROOT / ".tools" / "jedis"
HOLDERS = ("client-app", "client-reader", "client-stranger", "client-expired", "client-forged")
PAGE = ROOT / "docs" / "tls.md"


def make_store(command: str, folder: Path) -> None:
    """Run a command of docs/tls.md, in the folder above ``ca``."""
    subprocess.run(command.split(), cwd=folder, check=True, capture_output=True, timeout=seconds())


@pytest.fixture(scope="module")
def stores(secured_serving: Secured) -> Secured:
    """Java's files for all holders, made by the commands of the page."""
    program("openssl")
    program("keytool", hint="apt-get install openjdk-17-jre-headless")
    of_holder, of_authority = commands_of_the_page()
    folder = secured_serving.files.folder.parent
    (folder / "password").write_text(PASSWORD)
    for holder in HOLDERS:
        make_store(of_holder.replace("client-app", holder), folder)
    for authority in ("ca", "other-ca"):
        make_store(of_authority.replace("ca/ca.", f"ca/{authority}."), folder)
    return secured_serving


def commands_of_the_page() -> tuple[str, str]:
    """The command that makes a holder's file, and the one for the authority's."""
    lines = [line.removeprefix("$ ") for line in PAGE.read_text().splitlines()]
    [of_holder] = [line for line in lines if line.startswith("openssl pkcs12")]
    [of_authority] = [line for line in lines if line.startswith("keytool")]
    return of_holder, of_authority


@pytest.mark.parametrize("protocol", ["2", "3"])
def test_jedis_over_tls(stores: Secured, protocol: str) -> None:
    java = program("java", hint="apt-get install openjdk-17-jre-headless")
    classes = FOLDER / "classes"
    require((FOLDER / ".installed").exists(), "Jedis is missing: run `make tools` (wants Java 17)")
    done = subprocess.run(
        [java, "-XX:TieredStopAtLevel=1", "-cp", f"{classes}:{FOLDER}/jars/*", "JedisTests"],
        env=stores.environment(PROTOCOL=protocol),
        capture_output=True,
        text=True,
        timeout=seconds(LONG),
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "12 passed" in done.stdout
