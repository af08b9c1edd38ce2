"""``crdtstream doctor``: what a report has, and that no secret and no data are in it."""

import base64
import json
import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner, Result

from crdtstream.access.basic import Login
from crdtstream.cli.start import program
from crdtstream.command_line.reach import PASSWORD_VARIABLE
from crdtstream.doctor.cleaning import Cleaner
from crdtstream.doctor.configured import LEFT_OUT, secrets_of, settings_of
from crdtstream.doctor.logged import BYTES_MAX, EVENTS_MAX, LoggedEvent, event_of, read_log
from crdtstream.doctor.nodes import HIDDEN, SHOWN
from crdtstream.node.log_names import NAMES, UNNAMED
from crdtstream.settings.node_settings import ENV_PREFIX
from crdtstream.v1 import admin_pb2
from tests.live.cluster import Cluster, Node

# Each is unlike any other text, so that a part of it is found as well.
PASSWORD: Final = "planted-Password-7Gq2"
OF_A_USER: Final = "planted-UserPassword-4Jc6"
HASH_OF_A_USER: Final = "c0ffee" * 10 + "0123"
OF_THE_ENVIRONMENT: Final = "planted-Environment-9Xw4"
KEY: Final = "planted-key-1Mz5"
STRING_KEY: Final = "planted-string-key-6Hs3"
VALUE: Final = "planted-value-3Lk8"
FIELD: Final = "planted-field-8Vd0"
GROUP: Final = "planted-group-2Rt6"
CONSUMER: Final = "planted-consumer-5Bn1"
CLIENT: Final = "planted-client-0Pp9"
CHANNEL: Final = "planted-channel-7Yy7"
IN_THE_LOG: Final = "planted-log-detail-8Uu8"
ALL: Final = (
    *(PASSWORD, OF_A_USER, HASH_OF_A_USER, OF_THE_ENVIRONMENT, KEY, STRING_KEY, VALUE, FIELD),
    *(GROUP, CONSUMER, CLIENT, CHANNEL, IN_THE_LOG),
)


def doctor(*words: str | Path) -> Result:
    return CliRunner().invoke(program(["doctor"]), ["doctor", *map(str, words)])


# --- A whole report -------------------------------------------------------------------------------


def places_of(secret: str, text: str) -> list[str]:
    """Forms of a secret that a text has: as it was written, in base64, in hexadecimal."""
    plain = secret.encode()
    forms = [secret, plain.hex(), *(base64.b64encode(b":"[:n] + plain).decode() for n in (0, 1))]
    return [form for form in forms if form.rstrip("=") in text]


def shown_secrets(text: str) -> list[str]:
    return [secret for secret in ALL if places_of(secret, text)]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node]:
    """A node that has secrets in its settings, and data of all kinds."""
    folder = tmp_path_factory.mktemp("doctor")
    one = Cluster(1, folder)[1]
    one.configure({}, requirepass=PASSWORD)
    users = [
        f"app on >{OF_A_USER} ~{KEY}* +@all",
        f"hashed on #{HASH_OF_A_USER} ~* -@all",
    ]
    one.config.write_text(f"users = {json.dumps(users)}\n" + one.config.read_text())
    one.login = Login(PASSWORD)
    one.client.connection_pool.connection_kwargs["password"] = PASSWORD
    one.start("--new-database")
    r = one.client
    r.client_setname(CLIENT)
    r.xadd(KEY, {FIELD: VALUE})
    r.xgroup_create(KEY, GROUP, "0")
    r.xreadgroup(GROUP, CONSUMER, {KEY: ">"})
    r.set(STRING_KEY, VALUE)
    r.publish(CHANNEL, VALUE)
    with one.log.open("a") as log:
        log.write(
            f"2026-11-26T19:00:00.000001Z [warning  ] link down   reason={IN_THE_LOG} peer=2\n"
        )
        log.write(f"Traceback: ValueError: {IN_THE_LOG}\n")
    yield one
    if one.process is not None:
        one.process.kill()
    r.close()


@pytest.fixture
def options(node: Node, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv(PASSWORD_VARIABLE, PASSWORD)
    # Only this program has them: the node was started before.
    monkeypatch.setenv(f"{ENV_PREFIX}OTHER_PASSWORD", OF_THE_ENVIRONMENT)
    return [
        *(
            "--address",
            node.grpc_address,
            "--config",
            str(node.config),
            "--log-file",
            str(node.log),
        ),
    ]


@pytest.mark.live
def test_a_report_of_a_running_node_has_facts_and_no_secrets(
    node: Node, options: list[str], tmp_path: Path
) -> None:
    path = tmp_path / "report.json"
    result = doctor(*options, "--output", path)
    assert result.exit_code == 0, result.output
    text = path.read_text()
    assert shown_secrets(text + result.output) == []
    report = json.loads(text)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    about = report["regions"]["1"]
    assert about["status"]["keys"] == 2
    assert not HIDDEN.keys() & about["status"].keys()
    assert about["info"]["redis_version"]
    assert int(about["info"]["process_id"]) == node.process.pid  # type: ignore[union-attr]
    [settings] = report["settings"]
    assert settings["values"]["resp_port"] == node.resp_port
    assert settings["values"]["requirepass"] == settings["values"]["users"] == LEFT_OUT
    assert {"requirepass", "users", "resp_port"} <= set(settings["changed"])
    [log] = report["logs"]
    assert {"info serving", "warning link-down"} <= set(log["counts"])
    assert log["other_lines"] == 1
    assert f"{ENV_PREFIX}OTHER_PASSWORD" in report["environment"]
    [left_out] = report["left_out"]
    assert left_out.startswith("fsck: ")
    assert f"left out: {left_out}" in result.stderr
    assert report["machine"]["limits"]["open_files"]["soft"] > 0
    assert report["machine"]["disks"][str(node.folder)]["free_bytes"] > 0


@pytest.mark.live
def test_a_report_goes_to_stdout_and_never_over_another_one(
    node: Node, options: list[str], tmp_path: Path
) -> None:
    result = doctor(*options, "--output", "-", "--without-fsck")
    assert json.loads(result.stdout)["left_out"] == ["fsck: --without-fsck"]
    path = tmp_path / "report.json"
    path.write_text("mine")
    result = doctor(*options, "--output", path)
    assert result.exit_code == 2
    assert "exists; name another --output" in result.stderr
    assert path.read_text() == "mine"
    dangling, elsewhere = tmp_path / "link", tmp_path / "elsewhere"
    dangling.symlink_to(elsewhere)
    assert doctor(*options, "--output", dangling).exit_code == 2
    assert not elsewhere.exists()
    result = doctor(*options, "--output", tmp_path / "missing" / "report.json")
    assert result.exit_code == 2
    assert "No such file or directory; name another --output" in result.stderr


@pytest.mark.live
def test_a_wrong_password_is_told_and_the_rest_is_collected(
    node: Node, options: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD_VARIABLE, OF_THE_ENVIRONMENT)
    result = doctor(*options, "--output", "-")
    report = json.loads(result.stdout)
    assert result.exit_code == 0
    assert report["regions"]["1"]["info"] is None
    assert any(text.startswith("INFO of region 1: ") for text in report["left_out"])
    assert not places_of(OF_THE_ENVIRONMENT, result.output)
    assert not places_of(PASSWORD, result.output)
    assert report["settings"]


@pytest.mark.live
def test_the_folder_of_a_stopped_node_is_checked(node: Node, options: list[str]) -> None:
    """The last test of the node's folder: it stops the node, and damages it."""
    assert node.end() == 0
    result = doctor(*options, "--output", "-")
    report = json.loads(result.stdout)
    found = report["folders"][str(node.folder)]
    assert found["fsck"]["is_sound"]
    assert "log.sqlite" in found["files"]
    assert found["fsck"]["digest"]
    with sqlite3.connect(node.folder / "log.sqlite") as log:
        log.execute("update log set batch = X'00' where batch is not null")
    log.close()
    result = doctor(*options, "--output", "-")
    report = json.loads(result.stdout)
    assert result.exit_code == 0
    assert not report["folders"][str(node.folder)]["fsck"]["is_sound"]
    assert shown_secrets(result.output) == []


def test_without_any_option_a_report_says_what_it_lacks() -> None:
    report = json.loads(doctor("--address", "127.0.0.1:1", "--output", "-").stdout)
    assert report["settings"] == report["logs"] == []
    assert report["left_out"][:2] == [
        "settings: no --config and no --dir",
        "log events: no --log-file and no --dir",
    ]
    assert report["program"]["python"]
    assert "127.0.0.1:1" in report["left_out"][2]


# --- Settings -------------------------------------------------------------------------------------


def test_problems_of_settings_are_named_and_not_quoted(tmp_path: Path) -> None:
    path = tmp_path / "region-1.toml"
    path.write_text(f'region = 0\ndir = "d"\nrequirepas = "{PASSWORD}"\n')
    shown, settings = settings_of(path)
    assert settings is None
    assert {"region", "requirepas"} <= set(shown["problems_of"])
    assert PASSWORD not in json.dumps(shown)


def test_secrets_are_found_in_files_and_in_rules_of_users(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(PASSWORD + "\n")
    secret.chmod(0o600)
    path = tmp_path / "region-1.toml"
    path.write_text(
        f'region = 1\ndir = "d"\nrequirepass_file = "{secret}"\nusers = ["a on >{OF_A_USER}"]\n'
    )
    _, settings = settings_of(path)
    assert settings is not None
    assert {PASSWORD, OF_A_USER} <= set(secrets_of(settings))


# --- Nodes ----------------------------------------------------------------------------------------


def test_each_field_of_a_status_is_shown_or_hidden_by_choice() -> None:
    fields = {field.name for field in admin_pb2.StatusReply.DESCRIPTOR.fields}
    assert HIDDEN.keys() | SHOWN == fields
    assert not HIDDEN.keys() & SHOWN


# --- Texts ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("stream b'orders': counts 2", "stream '…': counts 2"),
        ('stream b"it\'s": counts 2', "stream '…': counts 2"),
        ("key 'a' and \"b\"", "key '…' and '…'"),
        ("region's folder is its peers' too", "region's folder is its peers' too"),
        ("no 'it\\'s' here", "no '…' here"),
        ("token hunter22hunter22 end", "token …… end"),
        ("hunter22-and-more", "…"),
        ("abc stays", "abc stays"),
    ],
)
def test_quoted_parts_and_known_secrets_are_removed(text: str, cleaned: str) -> None:
    cleaner = Cleaner(["abc", "hunter22", "hunter22-and-more"])
    assert cleaner.cleaned({text: [text, 1, None]}) == {cleaned: [cleaned, 1, None]}


# --- Logs -----------------------------------------------------------------------------------------

SHORT: Final = NAMES["password-short"][0]
TIME: Final = "2026-11-26T19:00:00.000001Z"


@pytest.mark.parametrize(
    ("line", "event"),
    [
        (f"{TIME} [info     ] serving                        region=1", ("info", "serving")),
        (f"{TIME} [info     ] link live                      peer=2", ("info", "link-live")),
        (f"{TIME} [debug    ] link                           peer=2", ("debug", "link")),
        (f"{TIME} [info     ] ready", ("info", "ready")),
        (
            f"\x1b[2m{TIME}\x1b[0m [\x1b[33m\x1b[1mwarning  \x1b[0m] \x1b[1mlink down\x1b[0m",
            ("warning", "link-down"),
        ),
        (f"{TIME} [warning  ] {SHORT.replace('{}', '16')} user=a", ("warning", "password-short")),
        (f"{TIME} [error    ] never heard of", ("error", UNNAMED)),
        (
            json.dumps({"time": TIME, "level": "error", "event": "log-refused", "reason": VALUE}),
            ("error", "log-refused"),
        ),
        (json.dumps({"time": TIME, "level": "info", "event": VALUE}), ("info", UNNAMED)),
        (json.dumps({"time": VALUE, "level": "info", "event": "ready"}), None),
        (json.dumps({"time": TIME, "level": VALUE, "event": "ready"}), None),
        (json.dumps({"time": TIME, "level": [VALUE], "event": "ready"}), None),
        ('{"time": ' + "[" * 100_000, None),
        (f"{TIME} [{VALUE[:7]}] ready", None),
        ("{no json", None),
        ("[1]", None),
        ("Traceback (most recent call last):", None),
        ("", None),
    ],
)
def test_the_event_of_a_line_is_found(line: str, event: tuple[str, str] | None) -> None:
    assert event_of(line) == (None if event is None else LoggedEvent(TIME, *event))


def test_every_sentence_is_found_in_a_line_for_people() -> None:
    for name, texts in NAMES.items():
        for text in texts:
            event = event_of(f"{TIME} [info     ] {text.replace('{}', '16')}   region=1")
            assert event == LoggedEvent(TIME, "info", name), text


def test_of_a_long_log_the_end_is_read(tmp_path: Path) -> None:
    path = tmp_path / "log"
    line = f"{TIME} [info     ] link live {'x' * 1000}\n"
    count = BYTES_MAX // len(line) + 100
    path.write_text(line * count + f"{TIME} [info     ] stopped\n")
    found: dict[str, Any] = read_log(path)
    assert found["bytes_read"] == BYTES_MAX < found["bytes"]
    assert len(found["last"]) == EVENTS_MAX
    assert found["last"][-1]["event"] == "stopped"
    assert found["other_lines"] == 0
