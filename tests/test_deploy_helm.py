"""The chart in ``deploy/helm``: helm renders it, Kubernetes' schemas fit, and nodes read it."""

import json
import re
import ssl
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, Final

import pytest
import trustme
import yaml

from crdtstream.access.basic import Login
from crdtstream.certificates.names import parse_uri, region_dns_name
from crdtstream.core.ids import RegionId
from crdtstream.settings.addresses import is_loopback
from crdtstream.settings.node_settings import NodeSettings, make_settings
from tests.conftest import ROOT, program
from tests.live.cluster import Cluster, cluster_of

# It starts helm, so the quick tests of other Pythons leave it out.
pytestmark = pytest.mark.live

CHART: Final = ROOT / "deploy" / "helm" / "crdtstream"
# Of the oldest Kubernetes that the chart allows, and of a new one.
VERSIONS: Final = ("1.27.0", "1.36.0")
GIB: Final = 1 << 30
PASSWORD: Final = ("auth.password=secret",)
CERT_MANAGER: Final = ("tls.certManager.enabled=true", "tls.certManager.issuerRef.name=ca")
PLAIN: Final = ("tls.enabled=false", "insecurePeers=true")
ALL: Final = (*PASSWORD, *CERT_MANAGER, "networkPolicy.enabled=true")
JOINING: Final = (
    *("regions[0].id=1", "regions[1].id=4"),
    *("regions[1].join.address=one:7380", "regions[1].join.tokenSecret=four"),
)
TWO_REPLICAS: Final = ("regions[0].id=1", "regions[0].replicas=2")


def helm(*words: str) -> "subprocess.CompletedProcess[str]":
    command = [str(program("helm")), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@cache
def rendered_text(*values: str, version: str = VERSIONS[-1]) -> str:
    sets = [word for value in values for word in ("--set", value)]
    done = helm("template", "r", str(CHART), "-n", "n", "--kube-version", version, *sets)
    assert done.returncode == 0, done.stderr
    return done.stdout


def rendered(*values: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The rendered chart, by kind and name."""
    found = [one for one in yaml.safe_load_all(rendered_text(*values)) if one is not None]
    named = {(one["kind"], one["metadata"]["name"]): one for one in found}
    assert len(named) == len(found), "two things have one name"
    return named


def settings_of(*values: str, region: int) -> NodeSettings:
    """The settings of a region's node, as it reads them."""
    return make_settings(region_toml(*values, region=region), source="chart")


def region_toml(*values: str, region: int) -> dict[str, Any]:
    """The file of a region's settings."""
    config = rendered(*values)["ConfigMap", f"r-crdtstream-{region}"]
    return tomllib.loads(config["data"]["region.toml"])


def pod_of(*values: str, region: int = 1) -> dict[str, Any]:
    spec: dict[str, Any] = rendered(*values)["StatefulSet", f"r-crdtstream-{region}"]["spec"]
    pod: dict[str, Any] = spec["template"]["spec"]
    return pod


def test_helm_finds_nothing_wrong() -> None:
    done = helm("lint", str(CHART), "--strict", "--kube-version", VERSIONS[-1], "--set", *PASSWORD)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("version", VERSIONS)
def test_the_schemas_of_kubernetes_fit(tmp_path: Path, version: str) -> None:
    path = tmp_path / "rendered.yaml"
    path.write_text(rendered_text(*ALL, *JOINING, version=version))
    command = [str(program("kubernetes-validate")), "--strict", "-k", version, str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    told = (done.stdout + done.stderr).splitlines()
    assert done.returncode == 0, told
    # Certificates are cert-manager's, of which there are no schemas.
    strange = [line for line in told if "passed for" not in line]
    assert all("kind Certificate" in line for line in strange), strange


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((*PASSWORD, *TWO_REPLICAS), "region 1 has replicas: 2; a region is one process"),
        ((*PASSWORD, "regions[0].id=1", "regions[0].replicas=0"), "leave replicas out"),
        ((*PASSWORD, "regions[0].id=2", "regions[1].id=2"), "region 2 stands twice"),
        ((), "set auth.existingSecret"),
        ((*PASSWORD, "auth.existingSecret=x"), "use only one of them"),
        ((*PASSWORD, "tls.enabled=false"), "can pose as a region"),
        ((*PASSWORD, "insecurePeers=true"), "insecurePeers is for regions without TLS"),
        ((*PASSWORD, CERT_MANAGER[0]), "name the issuer"),
        ((*PASSWORD, "settings.dir=/x"), "settings.dir: the chart sets it itself"),
        ((*PASSWORD, "storage.size=10GB"), "storage.size: 10GB is no number of bytes"),
        ((*PASSWORD, "resources.limits.memory=1e9"), "or give settings.maxmemory yourself"),
        (
            (*PASSWORD, "externalPeers[0].region=3", "externalPeers[0].address=h:1"),
            "it runs here or elsewhere",
        ),
        ((*PASSWORD, "regions[0].id=1024"), "regions.0.id: Must be less than or equal to 1023"),
        ((*PASSWORD, "replicas=2"), "replicas"),
    ],
)
def test_values_that_make_no_sense_render_nothing(values: tuple[str, ...], said: str) -> None:
    sets = [word for value in values for word in ("--set", value)]
    done = helm("template", "r", str(CHART), "--kube-version", VERSIONS[-1], *sets)
    assert done.returncode != 0
    assert done.stdout == ""
    assert said in done.stderr


@pytest.mark.parametrize("values", [(*PASSWORD,), (*PASSWORD, *PLAIN)], ids=["tls", "plain"])
def test_settings_that_the_chart_writes_are_refused_from_the_operator(
    values: tuple[str, ...],
) -> None:
    """Twice in a file they would stop the node, and some of them open a port to others."""
    written = region_toml(*values, region=1)
    given = (*values, *(f"settings.{name}=1" for name in written))
    words = [word for value in given for word in ("--set", value)]
    done = helm("template", "r", str(CHART), "--kube-version", VERSIONS[-1], *words)
    assert done.returncode != 0
    refused = set(re.findall(r"settings\.(\w+)", done.stderr))
    # The bounds that the chart computes are only for operators who give none.
    assert refused == set(written) - {"maxmemory", "maxdisk"}


@pytest.mark.parametrize("values", [(*PASSWORD,), (*PASSWORD, *PLAIN)], ids=["tls", "plain"])
def test_a_node_reads_its_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: tuple[str, ...]
) -> None:
    secret = tmp_path / "requirepass"
    secret.write_text("secret\n")
    monkeypatch.setenv("CRDTSTREAM_REQUIREPASS_FILE", str(secret))
    found = settings_of(*values, region=2)
    assert found.region == 2
    assert {peer.region: peer.address for peer in found.peers} == {
        region: f"r-crdtstream-{region}-peers.n.svc:7380" for region in (1, 3)
    }
    # Other machines reach all ports, and TLS or a word of the operator's stands before that.
    assert not any(map(is_loopback, (found.host, found.grpc_host, found.http_host)))
    assert found.tls_replication is found.tls_http is bool(found.tls_port)
    assert found.insecure_peers is not found.tls_replication
    assert bool(found.resp_port) is not found.tls_replication


def test_settings_of_the_operator_reach_the_node(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = tmp_path / "requirepass"
    secret.write_text("secret\n")
    monkeypatch.setenv("CRDTSTREAM_REQUIREPASS_FILE", str(secret))
    given = ("settings.appendfsync=everysec", "settings.maxdisk=5000000000")
    elsewhere = ("externalPeers[0].region=9", "externalPeers[0].address=eu.example.com:7380")
    tables = ("settings.limits.metrics_names_max=0", "settings.query.port=7480")
    found = settings_of(*PASSWORD, *PLAIN, *given, *tables, *elsewhere, region=1)
    assert (found.limits.metrics_names_max, found.query.port) == (0, 7480)
    assert (found.appendfsync, found.maxdisk) == ("everysec", 5_000_000_000)
    assert found.peers[-1].address == "eu.example.com:7380"


def test_each_region_is_one_pod_with_its_own_volume() -> None:
    found = rendered(*ALL)
    for region in (1, 2, 3):
        spec = found["StatefulSet", f"r-crdtstream-{region}"]["spec"]
        assert spec["replicas"] == 1
        (claim,) = spec["volumeClaimTemplates"]
        assert claim["metadata"]["name"] == "data"
        labels = spec["template"]["metadata"]["labels"]
        for name in (f"r-crdtstream-{region}", f"r-crdtstream-{region}-peers"):
            assert found["Service", name]["spec"]["selector"].items() <= labels.items()
        # A region that takes no writes yet waits for its peers, which must reach it meanwhile.
        peers = found["Service", f"r-crdtstream-{region}-peers"]["spec"]
        assert peers["publishNotReadyAddresses"]
        assert spec["serviceName"] == f"r-crdtstream-{region}-peers"


@pytest.mark.parametrize("values", [(*PASSWORD,), (*PASSWORD, *PLAIN)], ids=["tls", "plain"])
def test_a_region_that_is_added_joins_with_its_token(values: tuple[str, ...]) -> None:
    values = (*values, *JOINING)
    assert "--join" not in pod_of(*values, region=1)["containers"][0]["args"]
    pod = pod_of(*values, region=4)
    (node,) = pod["containers"]
    options = dict(zip(node["args"][2::2], node["args"][3::2], strict=True))
    assert options["--join"] == "one:7380"
    # The folder of its settings, as a node that joins demands, and their certificate.
    settings = region_toml(*values, region=4)
    assert options["--region-dir"] == settings["dir"]
    for name in ("tls_cert_file", "tls_key_file", "tls_ca_cert_file"):
        assert options.get(f"--{name.replace('_', '-')}") == settings.get(name)
    (mount,) = (one for one in node["volumeMounts"] if one["name"] == "join")
    assert options["--token-file"] == f"{mount['mountPath']}/token"
    (volume,) = (one for one in pod["volumes"] if one["name"] == "join")
    assert volume["secret"] == {"secretName": "four", "defaultMode": 0o440}


def test_an_upgrade_restarts_no_region_by_itself() -> None:
    """Regions are StatefulSets of their own: Kubernetes would restart all of them together."""
    for region in (1, 2, 3):
        spec = rendered(*ALL)["StatefulSet", f"r-crdtstream-{region}"]["spec"]
        assert spec["updateStrategy"] == {"type": "OnDelete"}
    at_once = rendered(*ALL, "updateStrategy.type=RollingUpdate")
    spec = at_once["StatefulSet", "r-crdtstream-1"]["spec"]
    assert spec["updateStrategy"] == {"type": "RollingUpdate"}


def test_a_region_gets_another_pod_for_its_own_settings_alone() -> None:
    regions = tuple(f"regions[{region - 1}].id={region}" for region in (1, 2, 3))
    own = (*ALL, *regions, "regions[1].storage.size=20Gi")
    assert template_of(*own, region=1) == template_of(*ALL, *regions, region=1)
    changed = (*ALL, "settings.appendfsync=everysec")
    assert template_of(*changed, region=1) != template_of(*ALL, region=1)


def template_of(*values: str, region: int) -> dict[str, Any]:
    spec = rendered(*values)["StatefulSet", f"r-crdtstream-{region}"]["spec"]
    template: dict[str, Any] = spec["template"]
    return template


@pytest.mark.parametrize(
    ("given", "size"),
    [
        ("1Gi", GIB),
        ("1.5Gi", 1.5 * GIB),
        ("512Mi", GIB // 2),
        ("2G", 2e9),
        ("1500000k", 1.5e9),
        ("3000000000", 3e9),
    ],
)
def test_a_region_takes_a_part_of_its_memory(given: str, size: float) -> None:
    """It refuses what adds data, where the kernel would kill it again and again."""
    values = (*PASSWORD, f"resources.limits.memory={given}")
    assert region_toml(*values, region=1)["maxmemory"] == int(size * 7 / 10)
    own = (*PASSWORD, "regions[0].id=1", f"regions[0].resources.limits.memory={given}")
    assert region_toml(*own, region=1)["maxmemory"] == int(size * 7 / 10)


def test_a_region_takes_a_part_of_its_volume() -> None:
    """Other regions' writes are applied beyond ``maxdisk``, and the file system takes its share."""
    assert region_toml(*PASSWORD, region=1)["maxdisk"] == 8 * GIB
    own = (*PASSWORD, "regions[0].id=1", "regions[1].id=2", "regions[1].storage.size=100Gi")
    found = [region_toml(*own, region=region)["maxdisk"] for region in (1, 2)]
    assert found == [8 * GIB, 80 * GIB]


def test_bounds_of_the_operator_stand() -> None:
    given = region_toml(*PASSWORD, "settings.maxmemory=0", "settings.maxdisk=5000", region=1)
    assert (given["maxmemory"], given["maxdisk"]) == (0, 5000)
    unlimited = region_toml(*PASSWORD, "resources.limits=null", region=1)
    assert "maxmemory" not in unlimited


def test_a_drain_takes_one_region_at_a_time() -> None:
    spec = rendered(*ALL)["PodDisruptionBudget", "r-crdtstream"]["spec"]
    assert spec["maxUnavailable"] == 1
    labels = rendered(*ALL)["StatefulSet", "r-crdtstream-1"]["spec"]["template"]["metadata"]
    assert spec["selector"]["matchLabels"].items() <= labels["labels"].items()
    assert (
        rendered(*ALL)["Pod", "r-crdtstream-test"]["metadata"]["labels"]
        .keys()
        .isdisjoint(one["key"] for one in spec["selector"]["matchExpressions"])
    )


def test_probes_ask_the_pages_that_are_meant_for_them() -> None:
    (node,) = pod_of(*ALL)["containers"]
    asked = {name: node[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: one["path"] for name, one in asked.items()} == {
        "startup": "/healthz",
        # A region that refuses writes is not restarted for that.
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    assert {one["scheme"] for one in asked.values()} == {"HTTPS"}
    (node,) = pod_of(*PASSWORD, *PLAIN)["containers"]
    assert "scheme" not in node["readinessProbe"]["httpGet"]


@pytest.mark.parametrize("where", ["region", "test"])
def test_no_container_can_do_more_than_it_needs(where: str) -> None:
    pod = pod_of(*ALL) if where == "region" else rendered(*ALL)["Pod", "r-crdtstream-test"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not pod["automountServiceAccountToken"]
    # Variables of a service named crdtstream-… would be taken for settings.
    assert not pod["enableServiceLinks"]
    for container in (*pod.get("initContainers", ()), *pod["containers"]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_secrets_are_mounted_and_stand_nowhere_else() -> None:
    found = rendered(*ALL)
    del found["Secret", "r-crdtstream-password"]
    assert "secret" not in [
        value for one in found.values() for value in texts(one) if value == "secret"
    ]
    for volume in pod_of(*ALL)["volumes"]:
        if "secret" in volume:
            # For the group of the node, and nobody else.
            assert volume["secret"]["defaultMode"] == 0o440
    (node,) = pod_of(*ALL)["containers"]
    # A mount of single files would keep the certificate of the pod's start.
    assert not [mount for mount in node["volumeMounts"] if "subPath" in mount]
    assert "env" not in node


def texts(content: Any) -> Iterator[str]:
    if isinstance(content, dict):
        for one in content.values():
            yield from texts(one)
    elif isinstance(content, list):
        for one in content:
            yield from texts(one)
    else:
        yield str(content)


def test_only_the_init_container_has_a_token_and_may_read_only_these_claims() -> None:
    pod = pod_of(*ALL)
    having = [
        container["name"]
        for container in (*pod["initContainers"], *pod["containers"])
        if "api-token" in [mount["name"] for mount in container["volumeMounts"]]
    ]
    assert having == ["claim-uid"]
    (rule,) = rendered(*ALL)["Role", "r-crdtstream"]["rules"]
    assert rule["verbs"] == ["get"]
    assert rule["resourceNames"] == [f"data-r-crdtstream-{region}-0" for region in (1, 2, 3)]
    assert pod["initContainers"][0]["command"][-2] == "data-r-crdtstream-1-0"


@pytest.mark.parametrize(
    ("values", "asking"),
    [
        (("storage.claimUid=false", "regions[1].storage.claimUid=true"), [2]),
        (("storage.claimUid=true", "regions[1].storage.claimUid=false"), [1]),
        (("storage.claimUid=false",), []),
    ],
)
def test_a_region_that_asks_for_its_claim_may_read_it(
    values: tuple[str, ...], asking: list[int]
) -> None:
    values = (*PASSWORD, "regions[0].id=1", "regions[1].id=2", *values)
    for region in (1, 2):
        assert ("initContainers" in pod_of(*values, region=region)) is (region in asking)
    role = rendered(*values).get(("Role", "r-crdtstream"))
    named = role["rules"][0]["resourceNames"] if role else []
    assert named == [f"data-r-crdtstream-{region}-0" for region in asking]
    assert (("RoleBinding", "r-crdtstream") in rendered(*values)) is bool(asking)


def test_certificates_have_the_names_by_which_regions_are_known() -> None:
    spec = rendered(*ALL)["Certificate", "r-crdtstream-2"]["spec"]
    (uri,) = spec["uris"]
    holder = parse_uri(uri)
    assert holder is not None
    assert (holder.name, holder.database_id) == ("2", "crdb")
    assert region_dns_name("crdb", RegionId(2)) in spec["dnsNames"]
    # Peers and clients reach it by these.
    assert {"r-crdtstream-2-peers.n.svc", "r-crdtstream-2.n.svc"} <= set(spec["dnsNames"])
    certificates = [
        one for one in pod_of(*ALL, region=2)["volumes"] if one["name"] == "certificate"
    ]
    assert certificates[0]["secret"]["secretName"] == spec["secretName"]


def test_a_network_policy_lets_in_regions_clients_and_nobody_else() -> None:
    spec = rendered(*ALL)["NetworkPolicy", "r-crdtstream"]["spec"]
    allowed = {rule["ports"][0]["port"]: rule["from"] for rule in spec["ingress"]}
    own = {"podSelector": {"matchLabels": spec["podSelector"]["matchLabels"]}}
    assert allowed == {"resp": [own, {"podSelector": {}}], "grpc": [own], "http": [own]}


# --- Its programs -------------------------------------------------------------------------------


class ApiServer:
    """The part of Kubernetes' API that knows one claim, by TLS."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        authority.cert_pem.write_to_path(str(folder / "ca.crt"))
        (folder / "token").write_text("the token\n")
        asked: list[tuple[str, str | None]] = []
        self.asked = asked

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append((self.path, self.headers["Authorization"]))
                is_known = self.path.endswith("/namespaces/n/persistentvolumeclaims/data-r-0")
                self.send_response(200 if is_known else 403)
                self.end_headers()
                self.wfile.write(json.dumps({"metadata": {"uid": "4f1c"}}).encode())

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("127.0.0.1").configure_cert(context)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)


@pytest.fixture
def api_server(tmp_path: Path) -> Iterator[ApiServer]:
    found = ApiServer(tmp_path)
    serving = threading.Thread(target=found.server.serve_forever, args=(0.01,))
    serving.start()
    yield found
    found.server.shutdown()
    found.server.server_close()
    serving.join()


def claim_uid(server: ApiServer, folder: Path, claim: str) -> "subprocess.CompletedProcess[str]":
    host, port = server.server.server_address[:2]
    return subprocess.run(
        [sys.executable, str(CHART / "files" / "claim_uid.py"), "n", claim, str(folder / "id")],
        env={
            "KUBERNETES_SERVICE_HOST": str(host),
            "KUBERNETES_SERVICE_PORT": str(port),
            "ACCOUNT_FOLDER": str(folder),
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_uid_of_a_claim_is_written(tmp_path: Path, api_server: ApiServer) -> None:
    done = claim_uid(api_server, tmp_path, "data-r-0")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "id").read_text() == "4f1c"
    ((_, login),) = api_server.asked
    assert login == "Bearer the token"


def test_a_claim_that_may_not_be_read_stops_the_pod(tmp_path: Path, api_server: ApiServer) -> None:
    done = claim_uid(api_server, tmp_path, "data-r-1")
    assert done.returncode == 1
    assert "let the service account get this claim, or set storage.claimUid" in done.stderr
    assert not (tmp_path / "id").exists()


@pytest.mark.live
def test_helm_test_finds_regions_that_have_what_others_wrote(tmp_path: Path) -> None:
    secret = tmp_path / "requirepass"
    secret.write_text("secret\n")
    with cluster_of(2, tmp_path) as regions:
        regions.configure(requirepass="secret")
        for node in regions.nodes.values():
            node.login = Login("default", "secret")
            node.client.connection_pool.connection_kwargs["password"] = "secret"
        regions.start()
        done = try_regions(secret, regions)
        assert done.returncode == 0, done.stderr
        assert "has it" in done.stdout
        assert regions[1].client.dbsize() == 0
        secret.write_text("another\n")
        refused = try_regions(secret, regions)
        assert refused.returncode == 1
        assert "AUTH: WRONGPASS" in refused.stderr
        assert "another" not in refused.stderr


def try_regions(secret: Path, regions: Cluster) -> "subprocess.CompletedProcess[str]":
    addresses = [f"127.0.0.1:{node.resp_port}" for node in regions.nodes.values()]
    return subprocess.run(
        [sys.executable, str(CHART / "files" / "try_regions.py"), str(secret), "-", *addresses],
        capture_output=True,
        text=True,
        check=False,
    )
