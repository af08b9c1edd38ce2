"""Settings: all problems at once, each naming its key and what to do."""

from pathlib import Path

import pytest

from crdtstream.region.checkpointing import LOG_BYTES_LEAST, refusal_of_log_bytes
from crdtstream.region.staleness import LAG_EFFECTS_MAX_HIGHEST, LAG_MS_MAX_HIGHEST
from crdtstream.region.tuning import LAG_EFFECTS, LAG_MS
from crdtstream.settings.node_settings import SettingsError, load_settings, make_settings

ROOT = Path(__file__).resolve().parents[2]
TLS = {
    "tls_replication": True,
    "tls_cert_file": "c",
    "tls_key_file": "k",
    "tls_ca_cert_file": "ca",
}
DEPLOY = sorted((ROOT / "deploy").glob("region-*.toml"))


def write(folder: Path, text: str) -> Path:
    path = folder / "node.toml"
    path.write_text(text)
    return path


def problems(given: dict[str, object]) -> tuple[str, ...]:
    with pytest.raises(SettingsError) as caught:
        make_settings({"region": 2, "dir": "data", **given}, source="test")
    return caught.value.problems


def test_region_decides_the_ports() -> None:
    settings = make_settings({"region": 2, "dir": "data"}, source="test")
    assert (settings.resp_port, settings.grpc_port, settings.http_port) == (6382, 7382, 8382)


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        """
        region = 2000
        appendfsync = "allways"
        apendfsync = "always"
        host = "0.0.0.0"
        [[peers]]
        region = 1
        adress = "127.0.0.1:7381"
        [limits]
        client_max = 3
        backoff_ms_min = 0
        """,
    )
    with pytest.raises(SettingsError) as caught:
        load_settings(path)

    keys = [problem.split(":")[0] for problem in caught.value.problems]
    assert sorted(keys) == [
        "apendfsync",
        "appendfsync",
        "dir",
        "host",
        "limits.backoff_ms_min",
        "limits.client_max",
        "peers[0].address",
        "peers[0].adress",
        "region",
    ]
    assert str(path) in str(caught.value)
    assert all(problem in str(caught.value) for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"apendfsync": "no"}, "apendfsync: no such key; did you mean appendfsync?"),
        ({"limits": {"client_max": 1}}, "limits.client_max: no such key; did you mean clients_max"),
        ({"region": 0}, "region: input should be greater than or equal to 1"),
        ({"region": 1024}, "region: input should be less than or equal to 1023"),
        ({"region": "two"}, "region: input should be a valid integer"),
        ({"database_id": ""}, "database_id: "),
        ({"redis_version": "6.2.0"}, "redis_version: must be a version of Redis from 7.4.0 to"),
        ({"crdt_xread_mode": "maybe"}, "crdt_xread_mode: input should be 'by-id' or 'never-skip'"),
        (
            {"checkpoint_log_bytes": 65_535},
            "follow the other without end: set at least 65536, or 0",
        ),
        ({"resp_port": 70000}, "resp_port: input should be less than or equal to 65535"),
        ({"resp_port": 7382}, "grpc_port: 7382 is the resp_port already"),
        ({"http_port": 6382}, "http_port: 6382 is the resp_port already"),
        (
            {"host": "0.0.0.0"},
            "host: 0.0.0.0 can be reached from other machines; set requirepass (or users, or aclf",
        ),
        ({"host": "::"}, "host: :: can be reached from other machines"),
        ({"host": "example.org"}, "host: example.org can be reached from other machines"),
        ({"http_host": "0.0.0.0"}, "http_host: 0.0.0.0 can be reached from other machines; set"),
        (
            {"grpc_host": "0.0.0.0"},
            "grpc_host: 0.0.0.0 can be reached from other machines; set requirepass and write inse",
        ),
        (
            {"grpc_host": "::ffff:10.0.0.1", "insecure_peers": True},
            "grpc_host: ::ffff:10.0.0.1 can be reached from other machines; set requirepass, or",
        ),
        (
            {"grpc_host": "10.0.0.1", "requirepass": "secret"},
            "grpc_host: 10.0.0.1 can be reached from other machines; write insecure_peers = true",
        ),
        ({"peers": [{"region": 2, "address": "h:1"}]}, "peers: region 2 is this node's own"),
        (
            {"peers": [{"region": 3, "address": "h:1"}, {"region": 3, "address": "h:2"}]},
            "peers: region 3 stands there twice",
        ),
        ({"peers": [{"region": 3, "address": "h"}]}, "peers[0].address: 'h' is not host:port"),
        ({"peers": [{"region": 3, "address": "h:0"}]}, "peers[0].address: 'h:0' is not host:port"),
        ({"crdt_xadd_id_uniqueness_mode": "lax"}, "input should be 'strict', 'semi-strict' or"),
        ({"stream_node_max_entries": -1}, "stream_node_max_entries: input should be greater"),
        (
            {"limits": {"backoff_ms_min": 9, "backoff_ms_max": 8}},
            "limits: backoff_ms_min must not exceed backoff_ms_max",
        ),
        (
            {"limits": {"link_silence_ms_max": 250}},
            "limits: link_silence_ms_max must exceed heartbeat_interval_ms",
        ),
        ({"resp_port": 0}, "resp_port: 0 leaves clients no port; set tls_port, or another number"),
        ({"tls_port": 6390}, "tls_port: needs a certificate; set tls_cert_file and tls_key_file"),
        ({"tls_port": 6382}, "tls_port: 6382 is the resp_port already"),
        ({"tls_port": 7382}, "grpc_port: 7382 is the tls_port already"),
        (
            {"tls_port": 6390, "tls_cert_file": "c", "tls_key_file": "k"},
            "tls_auth_clients: yes needs authorities to check clients' certificates with; set",
        ),
        ({"tls_auth_clients": "maybe"}, "tls_auth_clients: input should be 'yes', 'no' or 'opti"),
        ({"tls_auth_clients_user": "SAN"}, "tls_auth_clients_user: input should be 'off' or 'CN'"),
        ({"tls_protocols": "TLSv1"}, "tls_protocols: TLSv1 is broken; use TLSv1.2 and TLSv1.3"),
        ({"tls_ciphers": "NOSUCH"}, "tls_ciphers: OpenSSL knows no cipher of 'NOSUCH'"),
        ({"tls_ciphersuites": "TLS_AES_128_GCM_SHA256"}, "tls_ciphersuites: Python's ssl cannot"),
        ({"tls_session_caching": False}, "tls_session_caching: Python's ssl cannot switch it off"),
        ({"tls_cert_file": "c"}, "tls_cert_file and tls_key_file belong together; set both"),
        ({"tls_key_file": "k"}, "tls_cert_file and tls_key_file belong together; set both"),
        ({"tls_key_file_pass_file": "p"}, "tls_key_file_pass_file: is the password of tls_key_fil"),
        ({"tls_http": True}, "tls_http: needs a certificate; set tls_cert_file and tls_key_file"),
        ({"tls_ca_cert_file": "ca"}, "tls_ca_cert_file: is for TLS; set tls_cert_file and tls_key"),
        ({"tls_ca_cert_dir": "ca"}, "tls_ca_cert_dir: is for TLS; set tls_cert_file and tls_key"),
        (
            {"tls_replication": True},
            "tls_replication: regions prove who they are; set tls_cert_file, tls_key_file and",
        ),
        (
            {"tls_replication": True, "tls_cert_file": "c", "tls_key_file": "k"},
            "tls_replication: regions prove who they are; set tls_ca_cert_file",
        ),
        (TLS | {"database_id": "Orders"}, "tls_replication: database 'Orders' cannot be named in"),
        (TLS | {"host": "0.0.0.0"}, "host: 0.0.0.0 can be reached from other machines; set requir"),
        (TLS | {"http_host": "::"}, "http_host: :: can be reached from other machines; set requir"),
        ({"query": {"prot": 9}}, "query.prot: no such key; did you mean port?"),
        ({"query": {"port": 7382}}, "query: 7382 is the grpc_port already"),
        (
            {"query": {"tls_cert_file": "c"}},
            "query: tls_cert_file and tls_key_file belong together",
        ),
        (
            {"query": {"tls_client_ca_file": "c"}},
            "query: tls_client_ca_file wants tls_cert_file and tls_key_file",
        ),
        (
            {"requirepass": "secret", "query": {"port": 9, "host": "0.0.0.0"}},
            "query: 0.0.0.0 can be reached from other machines; set tls_cert_file and",
        ),
        (
            {
                "query": {
                    "port": 9,
                    "host": "0.0.0.0",
                    "tls_cert_file": "c",
                    "tls_key_file": "k",
                }
            },
            "query: 0.0.0.0 can be reached from other machines; set requirepass (or users, or acl",
        ),
        ({"maxmemory_clients": "101%"}, "maxmemory_clients: string should match pattern"),
        ({"maxmemory_clients": "x"}, "maxmemory_clients: string should match pattern"),
        ({"max_replication_lag_ms": -1}, "max_replication_lag_ms: input should be greater"),
        ({"max_replication_lag_ms": 1 << 31}, "max_replication_lag_ms: input should be less"),
        ({"max_replication_lag_effects": "9k"}, "max_replication_lag_effects: input should be a"),
        ({"replication_lag_action": "panic"}, "input should be 'warn', 'throttle' or 'refuse'"),
        ({"drill": {"failpoints": ""}}, "drill.failpoints: no such key; did you mean failpoint?"),
        ({"drill": {"failpoint": "checkpoint.put:"}}, "drill.failpoint: string should match"),
        (
            {"drill": {"failpoint": "checkpoint.put:3"}},
            "refuses its writes, for rehearsals only; to have it on a node with disposable data",
        ),
        ({"drill": {"clock_offset_ms": 1 << 50}}, "drill.clock_offset_ms: input should be less"),
    ],
)
def test_wrong_value_is_refused(given: dict[str, object], expected: str) -> None:
    (problem,) = problems(given)
    assert expected in problem


def test_a_failpoint_wants_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRDTSTREAM_DRILL_FAILPOINTS", "1")
    given = {"region": 1, "dir": "data", "drill": {"failpoint": "checkpoint.put:3"}}
    settings = make_settings(given, source="test")
    assert settings.drill.failpoint == "checkpoint.put:3"


def test_the_highest_bounds_are_those_that_can_be_tuned() -> None:
    for tunable, highest in (
        (LAG_EFFECTS, LAG_EFFECTS_MAX_HIGHEST),
        (LAG_MS, LAG_MS_MAX_HIGHEST),
    ):
        given = {"region": 1, "dir": "data", tunable.setting: highest}
        assert getattr(make_settings(given, source="test"), tunable.setting) == highest
        assert len(problems({tunable.setting: highest + 1})) == 1
        assert tunable.takes(str(highest))
        assert not tunable.takes(str(highest + 1))


@pytest.mark.parametrize("size", [0, 1, LOG_BYTES_LEAST - 1, LOG_BYTES_LEAST])
def test_checkpoints_come_as_often_by_settings_as_by_tuning(size: int) -> None:
    given = {"region": 1, "dir": "data", "checkpoint_log_bytes": size}
    if refusal_of_log_bytes(size) is None:
        assert make_settings(given, source="test").checkpoint_log_bytes == size
    else:
        (problem,) = problems(given)
        assert problem == f"checkpoint_log_bytes: {refusal_of_log_bytes(size)}"


def test_password_opens_other_addresses() -> None:
    given = {"region": 1, "dir": "data", "host": "0.0.0.0", "requirepass": "secret"}
    settings = make_settings(given, source="test")
    assert settings.host == "0.0.0.0"
    assert "secret" not in repr(settings)


def test_only_written_hosts_open_the_other_ports() -> None:
    given = {"region": 1, "dir": "data", "host": "10.0.0.1", "requirepass": "secret"}
    settings = make_settings(given, source="test")
    assert (settings.grpc_host, settings.http_host) == ("127.0.0.1", "127.0.0.1")
    given |= {"grpc_host": "10.0.0.2", "http_host": "::", "insecure_peers": True}
    settings = make_settings(given, source="test")
    assert settings.resp_address == "10.0.0.1:6381"
    assert settings.grpc_address == "10.0.0.2:7381"
    assert settings.http_address == "[::]:8381"


@pytest.mark.parametrize("host", ["10.0.0.1", "0.0.0.0", "127.0.0.2", "[::1]"])
def test_a_file_that_relied_on_host_for_grpc_is_told_what_to_write(host: str) -> None:
    peers = [{"region": 3, "address": "10.0.0.3:7383"}]
    given: dict[str, object] = {"host": host, "requirepass": "secret", "peers": peers}
    (problem,) = problems(given)
    shown = host.strip("[]")
    assert problem.startswith("grpc_host: is missing; ")
    assert f'write grpc_host = "{shown}", and http_host = "{shown}" if' in problem
    # A written address is meant, also a local one: a tunnel may end there.
    written = {"region": 2, "dir": "data", **given, "grpc_host": "127.0.0.1"}
    assert make_settings(written, source="test").host == host


def test_the_hosts_come_from_the_environment_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRDTSTREAM_GRPC_HOST", "10.0.0.1")
    monkeypatch.setenv("CRDTSTREAM_HTTP_HOST", "10.0.0.2")
    monkeypatch.setenv("CRDTSTREAM_INSECURE_PEERS", "true")
    monkeypatch.setenv("CRDTSTREAM_REQUIREPASS", "secret")
    settings = make_settings({"region": 1, "dir": "data"}, source="test")
    assert (settings.grpc_address, settings.http_address) == ("10.0.0.1:7381", "10.0.0.2:8381")


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.2", "::1", "localhost"])
def test_loopback_needs_no_password(host: str) -> None:
    assert make_settings({"region": 1, "dir": "data", "host": host}, source="test").host == host


def test_environment_beats_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, 'region = 1\ndir = "d"\n[limits]\nclients_max = 5\nbackoff_ms_min = 7')
    monkeypatch.setenv("CRDTSTREAM_APPENDFSYNC", "everysec")
    monkeypatch.setenv("CRDTSTREAM_LIMITS__CLIENTS_MAX", "9")
    settings = load_settings(path)
    assert settings.appendfsync == "everysec"
    assert (settings.limits.clients_max, settings.limits.backoff_ms_min) == (9, 7)


def test_wrong_variable_is_told_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRDTSTREAM_APPENDFSYNC", "sometimes")
    assert [problem.split(":")[0] for problem in problems({})] == ["appendfsync"]


def test_with_mutual_tls_the_grpc_port_may_be_open_to_other_machines() -> None:
    settings = make_settings(
        {"region": 2, "dir": "data", **TLS, "grpc_host": "0.0.0.0"}, source="test"
    )
    assert (settings.grpc_address, settings.insecure_peers) == ("0.0.0.0:7382", False)


def test_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"nowhere\.toml.*\n.*cannot be read"):
        load_settings(tmp_path / "nowhere.toml")


def test_broken_file_is_told_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"is no TOML: .*line 2"):
        load_settings(write(tmp_path, "region = 1\nregion 2"))


@pytest.mark.parametrize("path", DEPLOY, ids=lambda path: path.stem)
def test_example_file_is_right(path: Path) -> None:
    settings = load_settings(path)
    assert path.stem == f"region-{settings.region}"
    assert {peer.region for peer in settings.peers} == {1, 2, 3} - {settings.region}
    for peer in settings.peers:
        assert peer.address == f"127.0.0.1:{7380 + peer.region}"


@pytest.mark.parametrize("path", DEPLOY, ids=lambda path: path.stem)
def test_commented_lines_of_example_file_are_the_defaults(path: Path, tmp_path: Path) -> None:
    lines = [
        line.removeprefix("# ") if " = " in line or line.startswith("# [") else line
        for line in path.read_text().splitlines()
    ]
    assert load_settings(write(tmp_path, "\n".join(lines))) == load_settings(path)


def test_there_are_three_example_files() -> None:
    assert len(DEPLOY) == 3


# --- The password in a file ---------------------------------------------------------------------


def test_the_password_is_read_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "requirepass"
    path.write_text("open sesame\n")
    given = {"region": 2, "dir": "data", "host": "0.0.0.0", "requirepass_file": str(path)}
    settings = make_settings(given, source="test")
    assert settings.requirepass == "open sesame"
    for shown in (repr(settings), str(settings)):
        assert "sesame" not in shown


def test_a_password_in_two_places_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "requirepass"
    path.write_text("open sesame\n")
    file: dict[str, object] = {"requirepass_file": str(path)}
    told = "requirepass: requirepass_file names the password already; use only one of them"
    [problem] = problems({**file, "requirepass": "abracadabra"})
    assert problem.startswith(told)
    monkeypatch.setenv("CRDTSTREAM_REQUIREPASS", "abracadabra")
    [problem] = problems(file)
    assert problem.startswith(told)
    assert "abracadabra" not in problem


def test_a_password_file_that_cannot_be_used_is_one_problem(tmp_path: Path) -> None:
    path = tmp_path / "requirepass"
    [problem] = problems({"host": "0.0.0.0", "requirepass_file": str(path)})
    assert problem.startswith(f"requirepass: {path} cannot be read: No such file")
    path.write_text("\n")
    [problem] = problems({"host": "0.0.0.0", "requirepass_file": str(path)})
    assert problem == f"requirepass: {path}: its first line is empty; write the secret into it"
