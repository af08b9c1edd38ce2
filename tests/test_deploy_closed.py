"""The closed examples in ``deploy/closed``: no port is open, no secret stands in a file."""

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from crdtstream.database.acl.users import Users
from crdtstream.resp.accounts import Accounts, AccountsError
from crdtstream.settings.addresses import is_loopback
from crdtstream.settings.node_settings import NodeSettings, make_settings
from tests.conftest import ROOT, program
from tests.live.closed import users

FOLDER: Final = ROOT / "deploy" / "closed"
REGION: Final = FOLDER / "region-1.toml"
# A value of one of these names is a secret, and not the path of one.
SECRET: Final = re.compile(r"(?i)(password|secret|token|requirepass|key)$")


def settings() -> NodeSettings:
    return make_settings(tomllib.loads(REGION.read_text()), source=str(REGION))


def test_every_port_that_others_reach_speaks_tls_and_asks() -> None:
    found = settings()
    assert not any(map(is_loopback, (found.host, found.grpc_host, found.http_host)))
    assert found.resp_port == 0
    assert found.tls_port
    assert found.tls_auth_clients == "yes"
    assert found.tls_replication
    assert found.tls_http
    assert not found.insecure_peers
    assert found.query.port == 0


def test_secrets_stand_in_other_files() -> None:
    found = settings()
    assert found.requirepass == ""
    assert found.users == ()
    for name, value in walk(yaml.safe_load((FOLDER / "prometheus.yml").read_text())):
        assert not SECRET.search(name), f"{name}: {value}"
    for name, value in walk(yaml.safe_load((FOLDER / "grafana-datasource.yml").read_text())):
        assert not SECRET.search(name) or str(value).startswith("$__file{"), f"{name}: {value}"


def walk(content: Any, name: str = "") -> list[tuple[str, Any]]:
    """All values with the names of their keys."""
    if isinstance(content, dict):
        return [pair for key, one in content.items() for pair in walk(one, str(key))]
    if isinstance(content, list):
        return [pair for one in content for pair in walk(one, name)]
    return [(name, content)]


def test_users_have_no_password_until_it_is_filled_in(tmp_path: Path) -> None:
    """The example is refused as it is, so that nobody runs with a password that all can read."""
    path = tmp_path / "users.acl"
    given = {"region": 1, "dir": "d", "aclfile": str(path)}
    path.write_text((FOLDER / "users.acl").read_text())
    with pytest.raises(AccountsError) as error:
        Accounts(Users(), make_settings(given, source="test"))
    # One problem for each user but default.
    assert len(error.value.problems) == path.read_text().count("SHA256-OF-THE-PASSWORD") - 1
    path.write_text(users())
    Accounts(Users(), make_settings(given, source="test"))


def test_users_of_programs_are_not_dangerous() -> None:
    for line in (FOLDER / "users.acl").read_text().splitlines():
        words = line.split()
        if line.startswith("user ") and words[1] not in ("root", "default"):
            assert "-@all" in words
            assert not {"+@all", "+@admin", "+@dangerous", "nopass", "allcommands"} & set(words)


def test_prometheus_reads_its_configuration(tmp_path: Path) -> None:
    """With files where the example names some: promtool looks for them."""
    text = (FOLDER / "prometheus.yml").read_text()
    for name in ("crdtstream-ca.pem", "crdtstream-password"):
        (tmp_path / name).write_text("x")
    text = text.replace("/etc/prometheus", str(tmp_path))
    text = text.replace("../alerts.yml", str(ROOT / "deploy" / "alerts.yml"))
    path = tmp_path / "prometheus.yml"
    path.write_text(text)
    checked = subprocess.run(
        [str(program("promtool")), "check", "config", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr
