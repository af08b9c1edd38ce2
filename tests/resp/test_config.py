"""CONFIG: values in and out, and REWRITE into the file that the node was started from."""

import contextlib
import stat
import tomllib
from pathlib import Path
from typing import Any

import pytest
import redis
import structlog

from crdtstream.region.checkpointing import refusal_of_log_bytes
from crdtstream.resp.commands.server.rewriting import RewriteError, rewrite_file, with_values
from crdtstream.settings.node_settings import load_settings
from tests.resp.node import Node, running

# --- GET and SET --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "stored"),
    [("4096", 4096), ("4kb", 4096), ("4K", 4000), ("1mb", 1 << 20), ("2Gb", 2 << 30), ("7b", 7)],
)
def test_bytes_take_redis_s_units(node: Node, r: Any, text: str, stored: int) -> None:
    r.config_set("stream-node-max-bytes", text)
    assert r.config_get("stream-node-max-bytes") == {"stream-node-max-bytes": str(stored)}
    assert node.call(lambda: node.replica.node_limits.bytes_max) == stored
    r.config_set("stream-node-max-bytes", "4096")


def test_windows_of_idempotent_ids_are_as_long_as_set(node: Node, r: Any) -> None:
    both = {"stream-idmp-duration": "100", "stream-idmp-maxsize": "100"}
    assert r.config_get("stream-idmp-*") == both
    r.execute_command("CONFIG", "SET", "stream-idmp-duration", 5, "stream-idmp-maxsize", 7)
    assert node.call(
        lambda: (node.replica.keys.idmp_duration_s, node.replica.keys.idmp_maxsize)
    ) == (5, 7)
    r.execute_command("CONFIG", "SET", "stream-idmp-duration", 100, "stream-idmp-maxsize", 100)


@pytest.mark.parametrize("version", ["8.10.0", "7.4.1", "8.2.3"])
def test_every_place_names_the_redis_version_that_is_set(node: Node, r: Any, version: str) -> None:
    r.config_set("redis-version", version)
    assert r.config_get("redis-version") == {"redis-version": version}
    assert r.info("server")["redis_version"] == version
    hello = r.execute_command("HELLO")
    if not isinstance(hello, dict):
        hello = dict(zip(hello[::2], hello[1::2], strict=True))
    assert {str(version), version.encode()} & {hello.get("version"), hello.get(b"version")}
    assert version in str(r.execute_command("LOLWUT"))


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("stream-node-max-bytes", "4x", "argument must be a memory value"),
        ("stream-node-max-bytes", "-1", "argument must be a memory value"),
        ("stream-node-max-entries", "1k", "argument couldn't be parsed into an integer"),
        (
            "slowlog-log-slower-than",
            "-5",
            "argument must be between -1 and 9223372036854775807 inclusive",
        ),
        ("stream-idmp-duration", "86401", "argument must be between 1 and 86400 inclusive"),
        ("stream-idmp-maxsize", "0", "argument must be between 1 and 10000 inclusive"),
        (
            "redis-version",
            "8.2",
            "argument must be a version of Redis from 7.4.0 to 8.10.x, in three parts, as 8.2.3",
        ),
        ("timeout", "-1", "argument must be between 0 and 2147483647 inclusive"),
        ("maxclients", "0", "argument must be between 1 and 4294967295 inclusive"),
        (
            "proto-max-bulk-len",
            "1",
            "argument must be between 1048576 and 9223372036854775807 inclusive",
        ),
        (
            "appendfsync",
            "foo",
            "argument(s) must be one of the following: everysec, always, no",
        ),
        ("maxmemory", "100 mb", "argument must be a memory value"),
        ("maxdisk", "lots", "argument must be a memory value"),
        ("replication_backlog_size", "-1", "argument must be a memory value"),
        (
            "checkpoint_log_bytes",
            "1",
            refusal_of_log_bytes(1),
        ),
        (
            "checkpoint_interval_s",
            "-1",
            "argument must be a number from 0 (time is no reason) to 315360000",
        ),
        (
            "client-output-buffer-limit",
            "normal 1",
            "Wrong number of arguments in buffer limit configuration.",
        ),
        *[
            ("client-output-buffer-limit", value, reason)
            for value, reason in (
                ("", "Wrong number of arguments in buffer limit configuration."),
                ("wrong 0 0 0", "Invalid client class specified in buffer limit configuration."),
                ("master 0 0 0", "Invalid client class specified in buffer limit configuration."),
            )
        ],
        *[
            (
                "client-output-buffer-limit",
                f"normal 0 0 0 pubsub {numbers}",
                "Error in hard, soft or soft_seconds setting in buffer limit configuration.",
            )
            for numbers in ("x 0 0", "0 -1 0", "0 0 1s", "0 0 -1", f"{1 << 63} 0 0")
        ],
        ("maxmemory-clients", "x", "argument must be a memory or percent value"),
        ("maxmemory-clients", "-1", "argument must be a memory or percent value"),
        ("maxmemory-clients", "101%", "argument must be between 0 and 100 inclusive"),
        ("maxmemory-clients", "%", "argument must be a memory or percent value"),
        *[
            (
                "max_replication_lag_ms",
                value,
                "argument must be a number from 0 (no bound) to 2147483647",
            )
            for value in ("-1", "1.5", "", "1e3", " 1", "2147483648", "٣", "9" * 40)
        ],
        (
            "availability_latency_tolerance_ms",
            "-1",
            "argument must be a number from 0 (no bound) to 2147483647",
        ),
        (
            "replication_lag_action",
            "panic",
            "argument(s) must be one of the following: warn, throttle, refuse",
        ),
    ],
)
def test_a_value_that_is_not_taken_is_refused_with_its_name(
    r: Any, name: str, value: str, reason: str
) -> None:
    before = r.config_get(name)
    with pytest.raises(redis.ResponseError) as caught:
        r.config_set(name, value)
    problem = f"CONFIG SET failed (possibly related to argument '{name}') - {reason}"
    assert str(caught.value) == problem
    assert r.config_get(name) == before


def test_current_values_can_be_set_again(r: Any) -> None:
    for name, value in r.config_get("*").items():
        if name in ("aclfile", "bind", "crdt_region", "databases", "dir", "tcp-backlog"):
            with pytest.raises(redis.ResponseError, match="can't set immutable config"):
                r.config_set(name, value)
        else:
            assert r.config_set(name, value) is True, name


def test_limits_count_for_new_connections_and_for_replies_at_once() -> None:
    with running() as node, contextlib.closing(redis.Redis(port=node.port, protocol=2)) as r:
        r.config_set("client-output-buffer-limit", "normal 1mb 0 0")
        r.config_set("proto-max-bulk-len", "2mb")
        r.config_set("client-query-buffer-limit", "3mb")
        assert node.server.limits.output.normal.hard == 1 << 20
        assert node.server.limits.request.bulk_bytes_max == 2 << 20
        assert node.server.limits.request.request_bytes_max == 3 << 20
        shown = r.config_get("client-output-buffer-limit")["client-output-buffer-limit"]
        assert shown is not None
        assert shown.startswith("normal 1048576 0 0 ")


def test_the_log_tells_as_much_as_it_is_set_to(r: Any, capfd: pytest.CaptureFixture[str]) -> None:
    kept = structlog.get_config()["wrapper_class"]
    try:
        assert r.config_get("loglevel") == {"loglevel": "notice"}
        logger = structlog.get_logger("test")
        r.config_set("loglevel", "warning")
        logger.info("quiet")
        r.config_set("loglevel", "debug")
        logger.debug("loud")
        assert r.config_get("loglevel") == {"loglevel": "debug"}
        told = "".join(capfd.readouterr())
        assert "loud" in told
        assert "quiet" not in told
    finally:
        r.config_set("loglevel", "notice")
        structlog.configure(wrapper_class=kept)


# --- REWRITE ------------------------------------------------------------------------------------

WRITTEN = """\
# Region 1, in the cellar.
region = 1
dir = "data"           # on the large disk
requirepass = ''
stream_node_max_entries = 100   # as in Redis

[limits]
# Many, as there is room.
clients_max = 20_000

[[peers]]
region = 2
address = "127.0.0.1:7382"
"""


def test_rewrite_without_a_file_is_refused(r: Any) -> None:
    with pytest.raises(redis.ResponseError, match="The server is running without a config file"):
        r.config_rewrite()


def test_rewrite_puts_what_was_set_into_the_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "region-1.toml"
    path.write_text(WRITTEN)
    path.chmod(0o640)
    with (
        running(load_settings(path), config_file=path) as node,
        contextlib.closing(redis.Redis(port=node.port, protocol=2)) as r,
    ):
        r.config_rewrite()
        assert path.read_text() == WRITTEN
        r.config_set("stream-node-max-entries", 50)
        r.config_set("maxclients", 7)
        r.config_set("slowlog-log-slower-than", -1)
        r.config_set("client-output-buffer-limit", "normal 64mb 1mb 7 pubsub 16mb 0 0")
        r.config_set("maxmemory-clients", "5%")
        r.config_set("crdt_xadd_id_uniqueness_mode", "liberal")
        r.config_set("max_replication_lag_effects", 10_000)
        r.config_set("save", "")
        r.config_rewrite()
        assert r.info("server")["config_file"] == str(path)
    assert (
        path.read_text()
        == """\
# Region 1, in the cellar.
region = 1
dir = "data"           # on the large disk
requirepass = ''
stream_node_max_entries = 50   # as in Redis
crdt_xadd_id_uniqueness_mode = "liberal"
max_replication_lag_effects = 10000
maxmemory_clients = "5%"
slowlog_log_slower_than = -1

[limits]
# Many, as there is room.
clients_max = 7
output_buffer_bytes_max = 67108864
output_buffer_bytes_soft = 1048576
output_buffer_soft_s = 7
pubsub_buffer_bytes_max = 16777216
pubsub_buffer_bytes_soft = 0
pubsub_buffer_soft_s = 0

[[peers]]
region = 2
address = "127.0.0.1:7382"
"""
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert list(tmp_path.iterdir()) == [path]
    settings = load_settings(path)
    assert settings.limits.clients_max == 7
    assert settings.slowlog_log_slower_than == -1


def test_config_rewrite_writes_no_values_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "region-1.toml"
    path.write_text('region = 1\ndir = "data"\n')
    monkeypatch.setenv("CRDTSTREAM_STREAM_NODE_MAX_BYTES", "1000")
    with (
        running(load_settings(path), config_file=path) as node,
        contextlib.closing(redis.Redis(port=node.port, protocol=2)) as r,
    ):
        r.config_set("timeout", 60)
        r.config_rewrite()
    assert tomllib.loads(path.read_text()) == {"region": 1, "dir": "data", "timeout": 60}


@pytest.mark.parametrize(
    ("text", "values", "written"),
    [
        ("", {"timeout": 1}, "timeout = 1\n"),
        ("a = 1", {"timeout": 1}, "a = 1\ntimeout = 1\n"),
        ("a = 1\r\n", {"a": 2}, "a = 2\r\n"),
        ("'a' = 0x10 # hex\n", {"a": 2}, "'a' = 2 # hex\n"),
        ('a = "x # y" # z\n', {"a": 'q"'}, 'a = "q\\"" # z\n'),
        ("[t]\na = 1\n", {"a": 2}, "a = 2\n[t]\na = 1\n"),
        ("[t]\na = 1\n", {"t.a": 2}, "[t]\na = 2\n"),
        ("[ t ] # here\n", {"t.a": 2}, "[ t ] # here\na = 2\n"),
        ("b = 1\n", {"t.a": 2}, "b = 1\n\n[t]\na = 2\n"),
        ("b = 1\n", {"t.a": 2, "t.c": 3}, "b = 1\n\n[t]\na = 2\nc = 3\n"),
        ("t.a = 1\n", {"t.a": 2}, "t.a = 2\n"),
        ("[[p]]\na = 1\n[[p]]\na = 1\n", {"a": 3}, "a = 3\n[[p]]\na = 1\n[[p]]\na = 1\n"),
        ("p = [\n  { a = 1 },\n]\n", {"a": 3}, "a = 3\np = [\n  { a = 1 },\n]\n"),
    ],
)
def test_lines_are_changed_where_they_stand(
    tmp_path: Path, text: str, values: dict[str, int | str], written: str
) -> None:
    assert with_values(text, values) == written
    path = tmp_path / "some.toml"
    path.write_bytes(text.encode())
    rewrite_file(path, values)
    assert path.read_bytes() == written.encode()


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ('a = """\nb = 1\n"""\n', {"b": 2}),
        ("t = { a = 1 }\n", {"t.a": 2}),
        ("t = 1\n", {"t.a": 2}),
        ("a = [\n1,\n]\n", {"a": 2}),
        ("a = ", {"a": 2}),
    ],
)
def test_a_file_that_is_not_understood_stays_as_it_is(
    tmp_path: Path, text: str, values: dict[str, int | str]
) -> None:
    path = tmp_path / "some.toml"
    path.write_text(text)
    with pytest.raises(RewriteError):
        rewrite_file(path, values)
    assert path.read_text() == text
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_is_gone_is_an_error_that_names_it(tmp_path: Path) -> None:
    path = tmp_path / "region-1.toml"
    path.write_text('region = 1\ndir = "data"\n')
    with (
        running(load_settings(path), config_file=path) as node,
        contextlib.closing(redis.Redis(port=node.port, protocol=2)) as r,
    ):
        r.config_set("timeout", 60)
        path.unlink()
        with pytest.raises(redis.ResponseError, match=r"Rewriting config file: .*region-1\.toml"):
            r.config_rewrite()
        path.write_text('region = 1\ndir = "data"\n')
        r.config_rewrite()
    assert tomllib.loads(path.read_text())["timeout"] == 60


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real, link = tmp_path / "real.toml", tmp_path / "link.toml"
    real.write_text("a = 1\n")
    link.symlink_to(real)
    rewrite_file(link, {"a": 2})
    assert link.is_symlink()
    assert real.read_text() == "a = 2\n"
