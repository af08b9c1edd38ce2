"""Settings: all problems at once, each naming its key and what to do."""

from pathlib import Path
from typing import get_args

import pytest

from crdtstream.drill.planted import PLANTS
from crdtstream.region.checkpointing import LOG_BYTES_LEAST, refusal_of_log_bytes
from crdtstream.region.staleness import LAG_EFFECTS_MAX_HIGHEST, LAG_MS_MAX_HIGHEST
from crdtstream.region.tuning import LAG_EFFECTS, LAG_MS
from crdtstream.settings import Drill, SettingsError, load_settings, make_settings

DRILL_PLANTS = get_args(Drill.model_fields["plant"].annotation)
ROOT = Path(__file__).resolve().parents[2]
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
        ({"host": "0.0.0.0"}, "host: 0.0.0.0 can be reached from other machines; set requirepass"),
        ({"host": "::"}, "host: :: can be reached from other machines"),
        ({"host": "example.org"}, "host: example.org can be reached from other machines"),
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
            "query: 0.0.0.0 can be reached from other machines; set requirepass",
        ),
        ({"max_replication_lag_ms": -1}, "max_replication_lag_ms: input should be greater"),
        ({"max_replication_lag_ms": 1 << 31}, "max_replication_lag_ms: input should be less"),
        ({"max_replication_lag_effects": "9k"}, "max_replication_lag_effects: input should be a"),
        ({"replication_lag_action": "panic"}, "input should be 'warn', 'throttle' or 'refuse'"),
        ({"drill": {"plants": "none"}}, "drill.plants: no such key; did you mean plant?"),
        ({"drill": {"plant": "all"}}, "drill.plant: input should be 'none', 'ack-before-commit'"),
        (
            {"drill": {"plant": "ack-before-commit"}},
            "a bug that loses data, for rehearsals only; to have it on a node whose data nobody",
        ),
        ({"drill": {"failpoint": "checkpoint.put:"}}, "drill.failpoint: string should match"),
        (
            {"drill": {"failpoint": "checkpoint.put:3"}},
            "refuses its writes, for rehearsals only; to have it on a node whose data nobody",
        ),
        ({"drill": {"clock_offset_ms": 1 << 50}}, "drill.clock_offset_ms: input should be less"),
    ],
)
def test_wrong_value_is_refused(given: dict[str, object], expected: str) -> None:
    (problem,) = problems(given)
    assert expected in problem


def test_a_planted_bug_wants_a_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CRDTSTREAM_DRILL_PLANTS", "1")
    given = {"region": 1, "dir": "data", "drill": {"plant": "frontier-too-far"}}
    settings = make_settings(given, source="test")
    assert settings.drill.plant == "frontier-too-far"


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


@pytest.mark.parametrize("name", [name for name in DRILL_PLANTS if name != "none"])
def test_every_plant_that_can_be_set_is_there(name: str) -> None:
    assert PLANTS.keys() == set(DRILL_PLANTS) - {"none"}
    assert PLANTS[name].patches()


def test_password_opens_other_addresses() -> None:
    given = {"region": 1, "dir": "data", "host": "0.0.0.0", "requirepass": "secret"}
    settings = make_settings(given, source="test")
    assert settings.host == "0.0.0.0"
    assert "secret" not in repr(settings)


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
