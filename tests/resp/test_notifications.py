"""Keyspace notifications on a node: when they leave, to whom, and what they cost others."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from redis import Redis

from crdtstream.settings.node_settings import SettingsError, load_settings
from tests.patience import seconds, wait_until
from tests.resp.node import Node, RawClient, request, running, settings

KEYSPACE: Final = b"__keyspace@0__:"


@pytest.fixture
def told(node: Node) -> Iterator[Any]:
    """A redis-py subscriber of all notifications, which are on."""
    with contextlib.closing(Redis(port=node.port)) as client:
        client.config_set("notify-keyspace-events", "KEA")
        with contextlib.closing(client.pubsub(ignore_subscribe_messages=True)) as heard:
            heard.psubscribe("__keyspace@0__:*")
            heard.get_message(timeout=seconds())
            yield heard
        client.config_set("notify-keyspace-events", "")


def next_of(heard: Any) -> tuple[bytes, bytes]:
    """The key and the name of the next notification."""
    deadline = time.monotonic() + seconds()
    while time.monotonic() < deadline:
        message = heard.get_message(timeout=seconds())
        if message is not None:
            return message["channel"].removeprefix(KEYSPACE), message["data"]
    raise AssertionError("no notification came")


def test_a_notification_waits_for_the_log(node: Node, client: RawClient, told: Any) -> None:
    node.call(node.log.gate.clear)
    try:
        client.send(request(b"XADD", b"waits", b"*", b"f", b"v"))
        wait_until(lambda: node.call(lambda: node.replica.stream(b"waits")) is not None, "XADD ran")
        assert told.get_message(timeout=0.05) is None
    finally:
        node.call(node.log.gate.set)
    assert next_of(told) == (b"waits", b"xadd")


def test_pipelined_runs_notify_of_each_entry(node: Node, client: RawClient, told: Any) -> None:
    """Long pipelines are called as one, also over many streams."""
    client.send(b"".join(request(b"XADD", b"run%d" % (i % 3), b"*", b"f", b"v") for i in range(90)))
    names = [next_of(told) for _ in range(90)]
    assert names == [(b"run%d" % (i % 3), b"xadd") for i in range(90)]
    client.send(b"".join(request(b"XADD", b"run0", b"*", b"f", b"v") for _ in range(90)))
    assert [next_of(told) for _ in range(90)] == [(b"run0", b"xadd")] * 90


def test_pipelined_xdels_notify_one_by_one(client: RawClient, r: Any, told: Any) -> None:
    ids = [r.xadd("dels", {"f": "v"}) for _ in range(30)]
    for _ in ids:
        next_of(told)
    client.send(b"".join(request(b"XDEL", b"dels", entry_id) for entry_id in ids))
    assert [next_of(told) for _ in ids] == [(b"dels", b"xdel")] * 30
    assert r.xlen("dels") == 0


def test_notifications_stay_in_their_region(node: Node, r: Any, told: Any) -> None:
    """Each region notifies of what it applies: sent there besides, they would come twice."""
    forwarded: list[bytes] = []
    channels = node.database.channels
    forward = channels.forward

    def note(channel: bytes, payload: bytes, *, sharded: bool) -> list[Any]:
        forwarded.append(channel)
        return []

    channels.forward = note
    try:
        r.set("here", "v")
        assert next_of(told) == (b"here", b"set")
        r.publish("there", "v")
    finally:
        channels.forward = forward
    assert forwarded == [b"there"]


def test_a_user_hears_only_of_keys_whose_channels_it_may_use(node: Node, r: Any) -> None:
    r.execute_command(
        *("ACL", "SETUSER", "cache", "on", "nopass", "+@pubsub", "+ping"),
        *("resetchannels", "&__keyspace@0__:mine:*"),
    )
    with contextlib.closing(Redis(port=node.port, username="cache", password="any")) as client:
        heard = client.pubsub()
        heard.psubscribe("__keyspace@0__:mine:*")
        assert heard.get_message(timeout=seconds())["type"] == "psubscribe"
        with pytest.raises(Exception, match="No permissions to access a channel"):
            client.execute_command("SUBSCRIBE", "__keyspace@0__:yours:1")
        heard.close()
    r.execute_command("ACL", "DELUSER", "cache")


def test_nothing_is_noted_where_nothing_could_be_published(node: Node, r: Any) -> None:
    for text in ("", "KE", "A", "KEe", "Kd"):
        r.config_set("notify-keyspace-events", text)
        assert not node.call(lambda: node.database.notifications.is_on), text
    r.config_set("notify-keyspace-events", "Kt")
    assert node.call(lambda: node.database.notifications.is_on)
    r.config_set("notify-keyspace-events", "")


def test_commands_look_for_their_keys_only_while_misses_are_wanted(node: Node, r: Any) -> None:
    before = node.call(lambda: dict(node.database.commands))
    r.config_set("notify-keyspace-events", "KEA")
    assert node.call(lambda: dict(node.database.commands)) == before
    r.config_set("notify-keyspace-events", "Km")
    assert node.call(lambda: node.database.commands[b"get"]) != before[b"get"]
    r.config_set("notify-keyspace-events", "Ex")
    assert node.call(lambda: dict(node.database.commands)) == before


def test_changes_before_they_are_switched_off_are_told(client: RawClient, told: Any) -> None:
    """Both in one pipeline, as Redis tells it."""
    off = request(b"CONFIG", b"SET", b"notify-keyspace-events", b"")
    client.send(request(b"SET", b"told", b"v") + off + request(b"SET", b"untold", b"v"))
    assert next_of(told) == (b"told", b"set")
    assert told.get_message(timeout=0.05) is None


def test_without_subscribers_nothing_piles_up(node: Node, r: Any) -> None:
    r.config_set("notify-keyspace-events", "KEA")
    r.set("piles", "up")
    assert node.call(node.replica.take_noted) == []
    r.config_set("notify-keyspace-events", "")


def test_a_node_begins_with_the_notifications_of_its_settings() -> None:
    wanted = settings().model_copy(update={"notify_keyspace_events": "AKE"})
    with running(wanted) as node, contextlib.closing(Redis(port=node.port)) as client:
        assert client.config_get("notify-keyspace-events") == {"notify-keyspace-events": "AKE"}
        assert node.call(lambda: node.database.notifications.is_on)


def test_settings_name_a_character_that_is_no_class(tmp_path: Path) -> None:
    path = tmp_path / "region-1.toml"
    path.write_text('region = 1\ndir = "data"\nnotify_keyspace_events = "KEy"\n')
    with pytest.raises(SettingsError, match=r"'KEy' has a character that is no class"):
        load_settings(path)


def test_rewrite_keeps_the_classes_that_config_get_leaves_out(tmp_path: Path) -> None:
    path = tmp_path / "region-1.toml"
    path.write_text('region = 1\ndir = "data"\n')
    with (
        running(load_settings(path), path) as node,
        contextlib.closing(Redis(port=node.port)) as client,
    ):
        client.config_set("notify-keyspace-events", "KEAn")
        assert client.config_get("notify-keyspace-events") == {"notify-keyspace-events": "AKE"}
        client.config_rewrite()
    assert set(load_settings(path).notify_keyspace_events) == set("AKEn")
