"""The image and the compose files: their schema fits, and nodes read their settings."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from crdtstream.settings.node_settings import ENV_PREFIX, NodeSettings, make_settings
from tests.conftest import ROOT, free_base_port, program
from tests.live.cluster import running_regions

FOLDER: Final = ROOT / "deploy" / "docker"
COMPOSE: Final = ("compose.yaml", "compose.watch.yaml")
SERVICES: Final = tuple(f"region-{region}" for region in (1, 2, 3))
HEALTH: Final = FOLDER / "healthcheck.py"


def composed(name: str = COMPOSE[0]) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((FOLDER / name).read_text())
    return found


@pytest.mark.parametrize("name", COMPOSE)
def test_the_schema_of_compose_files_fits(name: str) -> None:
    command = [str(program("check-jsonschema")), "--builtin-schema", "vendor.compose-spec"]
    done = subprocess.run(
        [*command, str(FOLDER / name)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("service", SERVICES)
def test_a_node_reads_its_variables(
    service: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the file of the image, as the container's node does."""
    variables = composed()["services"][service]["environment"]
    secret = tmp_path / "requirepass"
    secret.write_text("secret\n")
    for name, value in {**variables, f"{ENV_PREFIX}REQUIREPASS_FILE": str(secret)}.items():
        assert name.removeprefix(ENV_PREFIX).lower() in NodeSettings.model_fields
        monkeypatch.setenv(name, value)
    found = make_settings(tomllib.loads((FOLDER / "region.toml").read_text()), source="image")
    assert f"region-{found.region}" == service
    assert {peer.address for peer in found.peers} == {
        f"region-{peer.region}:{found.grpc_port}" for peer in found.peers
    }
    assert {f"region-{peer.region}" for peer in found.peers} | {service} == set(SERVICES)
    ports = composed()["services"][service]["ports"]
    own = {f"{6380 + found.region}:{found.resp_port}", f"{8380 + found.region}:{found.http_port}"}
    # Nobody but this machine.
    assert set(ports) == {f"127.0.0.1:{port}" for port in own}


@pytest.mark.parametrize("name", COMPOSE)
def test_no_container_can_do_more_than_it_needs(name: str) -> None:
    for service in composed(name)["services"].values():
        assert service["read_only"]
        assert service["cap_drop"] == ["ALL"]
        assert service["security_opt"] == ["no-new-privileges:true"]
        assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_only_regions_and_prometheus_reach_ports_without_tls() -> None:
    """A program that reaches a gRPC port without TLS can pose as a region."""
    services = {**composed()["services"], **composed(COMPOSE[1])["services"]}
    assert composed()["x-settings"][f"{ENV_PREFIX}INSECURE_PEERS"] == "true"
    of_regions = {name for service in SERVICES for name in services[service]["networks"]}
    inside = {name for name, one in services.items() if of_regions & set(one["networks"])}
    assert inside == {*SERVICES, "prometheus"}
    # Grafana asks Prometheus.
    assert set(services["grafana"]["networks"]) & set(services["prometheus"]["networks"])
    named = [set(composed(name)["networks"]) for name in COMPOSE]
    assert {name for one in services.values() for name in one["networks"]} == set.union(*named)


def test_a_node_is_told_of_the_missing_password(tmp_path: Path) -> None:
    """The image alone opens no port to strangers."""
    done = subprocess.run(
        [sys.executable, "-m", "crdtstream", "node", "--config", str(FOLDER / "region.toml")],
        env={"CRDTSTREAM_REGION": "1", "CRDTSTREAM_PURE": "1", "PYTHONPATH": str(ROOT)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "requirepass" in done.stderr


def test_prometheus_reads_its_configuration(tmp_path: Path) -> None:
    secret = tmp_path / "requirepass"
    secret.write_text("x")
    text = (FOLDER / "prometheus.yml").read_text().replace("/run/secrets/requirepass", str(secret))
    (tmp_path / "prometheus.yml").write_text(text)
    (tmp_path / "alerts.yml").write_text((ROOT / "deploy" / "alerts.yml").read_text())
    done = subprocess.run(
        [str(program("promtool")), "check", "config", str(tmp_path / "prometheus.yml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (job,) = yaml.safe_load(text)["scrape_configs"]
    targets = {one["targets"][0]: one["labels"]["region"] for one in job["static_configs"]}
    assert targets == {f"{service}:8380": service[-1] for service in SERVICES}


def test_mounted_files_exist_and_grafana_finds_its_dashboard() -> None:
    services = composed(COMPOSE[1])["services"]
    mounted: dict[str, Path] = {}
    for service in services.values():
        for volume in service["volumes"]:
            source, target = volume.split(":")[:2]
            if source.startswith("."):
                mounted[target] = (FOLDER / source).resolve()
    assert all(path.exists() for path in mounted.values()), mounted
    (provider,) = yaml.safe_load((FOLDER / "grafana/dashboards/crdtstream.yml").read_text())[
        "providers"
    ]
    (dashboard,) = [
        path for target, path in mounted.items() if target.startswith(provider["options"]["path"])
    ]
    assert json.loads(dashboard.read_text())["title"] == "crdtstream"
    (source,) = yaml.safe_load((FOLDER / "grafana/datasources/crdtstream.yml").read_text())[
        "datasources"
    ]
    assert source["url"] == "http://prometheus:9090"
    assert "prometheus" in services


def test_secrets_stand_in_files_that_git_does_not_take() -> None:
    for name in COMPOSE:
        for secret in composed(name)["secrets"].values():
            path = FOLDER / secret["file"]
            ignored = subprocess.run(
                ["git", "check-ignore", "-q", str(path)], cwd=ROOT, check=False
            )
            assert ignored.returncode == 0, path


@pytest.mark.live
def test_the_health_check_asks_the_node(tmp_path: Path) -> None:
    with running_regions(1, tmp_path) as regions:
        assert health_of(regions[1].http_port) == 0
    assert health_of(free_base_port(1)) == 1


def health_of(port: int) -> int:
    """The status of the program, as the image runs it."""
    command = [sys.executable, "-I", "-S", str(HEALTH), str(port)]
    return subprocess.run(command, capture_output=True, check=False).returncode


def test_the_image_has_what_it_copies_and_no_root() -> None:
    text = (ROOT / "Dockerfile").read_text()
    let_in = [
        line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line[:1] == "!"
    ]
    assert all((ROOT / name).exists() for name in let_in), let_in
    for line in text.splitlines():
        if line.startswith("COPY deploy/"):
            source = line.split()[1]
            assert (ROOT / source).is_file()
            assert any(source.startswith(name) for name in let_in)
    # The wheel has these beside the package.
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    for source in wheel["targets"]["wheel"]["force-include"]:
        assert source in let_in
    instructions = [line.split()[0] for line in text.splitlines() if line[:1].isupper()]
    assert instructions.index("USER") < instructions.index("ENTRYPOINT")
    assert "USER 10001:10001" in text.splitlines()
