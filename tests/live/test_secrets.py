"""Secrets in a real node and real commands: they are in no place where others read.

Passwords and tokens are planted where operators and clients put them.  Then everything that the
node and the commands show is searched for them, in the forms in which they could be there.
"""

import base64
import contextlib
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import redis

from crdtstream.access.basic import Login
from crdtstream.settings.node_settings import load_settings
from tests.certificates.making import make, make_authority, pem_of
from tests.certificates.node_folder import NodeFolder
from tests.conftest import free_base_port
from tests.live.cluster import NODE_PROGRAM, Cluster, Node, cluster_of
from tests.live.forked import completed
from tests.live.test_joining import Joiner
from tests.patience import seconds
from tests.resp.node import RawClient, request

pytestmark = pytest.mark.live

# Each is unlike any other text, so that a part of it is found as well.
PASSWORD: Final = "planted-Password-7Gq2"
WRONG_CLIENT: Final = "planted-WrongAuth-9Xw4"
WRONG_CALLER: Final = "planted-WrongCaller-3Lk8"
WRONG_PAGE: Final = "planted-WrongPage-5Bn1"
SET_BY_CONFIG: Final = "planted-ConfigSet-2Rt6"
OF_A_USER: Final = "planted-AclUser-4Jc6"
IN_A_WRONG_FILE: Final = "planted-KeyOfSomething-8Vd0"
OF_A_KEY: Final = "planted-KeyPassword-6Hs3"
WRONG_OF_A_KEY: Final = "planted-WrongKeyPassword-1Mz5"


class Shown:
    """Everything that was shown, by where."""

    def __init__(self) -> None:
        self.texts: dict[str, bytes] = {}

    def add(self, where: str, what: object) -> None:
        text = what if isinstance(what, bytes) else str(what).encode()
        self.texts[where] = self.texts.get(where, b"") + text

    def places_of(self, secret: str) -> list[str]:
        """Places of a secret, as it was written or in a common form."""
        plain = secret.encode()
        pairs = [b"default:" + plain, b":" + plain, plain]
        forms = [plain, plain.hex().encode(), *map(base64.b64encode, pairs)]
        # Of base64 the end depends on what follows.
        forms = [form.rstrip(b"=")[:-1] for form in forms]
        return [
            where
            for where, text in self.texts.items()
            if any(form.lower() in text.lower() for form in forms)
        ]


def encrypted_key(folder: Path) -> dict[str, Any]:
    """Settings of a certificate whose key has a password."""
    leaf = make(make_authority(), "server", dns=("localhost",))
    files = NodeFolder(folder)
    files.put_all(leaf)
    files.put("key.pem", pem_of(leaf.key, OF_A_KEY.encode()))
    files.put("key-password", f"{OF_A_KEY}\n".encode())
    files.put("wrong-key-password", f"{WRONG_OF_A_KEY}\n".encode())
    return {
        "tls_port": free_base_port(1) + 1,
        "tls_cert_file": str(files.paths.certificate),
        "tls_key_file": str(files.paths.key),
        "tls_key_file_pass_file": str(folder / "key-password"),
        "tls_auth_clients": "no",
    }


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """One region whose password is in a file, as a process with arguments of its own."""
    with cluster_of(1, tmp_path, program=NODE_PROGRAM) as cluster:
        password = tmp_path / "requirepass"
        password.write_text(f"{PASSWORD}\n")
        password.chmod(0o600)
        everywhere: dict[str, Any] = dict.fromkeys(("host", "grpc_host", "http_host"), "0.0.0.0")
        files = encrypted_key(tmp_path)
        cluster.configure(
            requirepass_file=str(password), insecure_peers=True, **everywhere, **files
        )
        node = cluster[1]
        node.login = Login(PASSWORD)
        node.client = redis.Redis(port=node.resp_port, password=PASSWORD)
        # A database of one region may add another one.
        node.start("--new-database")
        yield cluster


def run(shown: Shown, *words: str, password: Path | None = None) -> int:
    """Run a command; all that it prints is noted."""
    given = [*words, *(("--password-file", str(password)) if password else ())]
    found = completed(["crdtstream", *given])
    shown.add(f"output of {' '.join(words[:2])}", found.stdout + found.stderr)
    return found.returncode


def run_visibly(shown: Shown, *words: str, password: Path) -> None:
    """Run a command as a program of its own, and note what its users and others see of it."""
    given = [*words, "--password-file", str(password)]
    with subprocess.Popen(
        [sys.executable, "-m", "crdtstream", *given],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
    ) as process:
        note_processes(shown)
        assert process.stdout is not None
        shown.add(f"output of {' '.join(words[:2])}", process.stdout.read())


def note_processes(shown: Shown) -> None:
    """The process list of the machine, as every user sees it."""
    listed = subprocess.run(["ps", "-eww", "-o", "args"], capture_output=True, check=True)
    shown.add("process list", listed.stdout)


def note_page(shown: Shown, node: Node, path: str, login: Login) -> None:
    asked = urllib.request.Request(f"http://127.0.0.1:{node.http_port}{path}")
    asked.add_header("Authorization", login.header)
    try:
        with urllib.request.urlopen(asked, timeout=seconds()) as answer:
            shown.add(f"page {path}", answer.read() + str(answer.headers).encode())
    except urllib.error.HTTPError as error:
        shown.add(f"page {path}", error.read() + str(error.headers).encode())


def note_folder(shown: Shown, where: str, folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            shown.add(f"{where}: {path.name}", path.read_bytes())


def talk(shown: Shown, node: Node) -> None:
    """Send what is secret, beside MONITOR and a SLOWLOG that has everything."""
    client = node.client
    client.config_set("slowlog-log-slower-than", 0)
    client.config_set("latency-monitor-threshold", 1)
    wrong_file = str(node.folder.parent / "wrong-key-password")
    login = request(b"AUTH", b"default", PASSWORD.encode())
    with RawClient(node.resp_port) as monitor, RawClient(node.resp_port) as other:
        monitor.ask(login + request(b"MONITOR"), b"+OK\r\n+OK\r\n")
        for secret in (WRONG_CLIENT, PASSWORD):
            for line in (
                ("AUTH", secret),
                ("AUTH", "default", secret),
                ("HELLO", "2", "AUTH", "default", secret),
                ("CONFIG", "SET", "requirepass", SET_BY_CONFIG),
                ("ACL", "SETUSER", "reader", "on", f">{OF_A_USER}", "~*", "+get"),
                ("ACL", "SETUSER", "reader", f"<{OF_A_USER}", "+nothing"),
                ("CONFIG", "SET", "masterauth", SET_BY_CONFIG, "masteruser", SET_BY_CONFIG),
                ("CONFIG", "SET", "tls-key-file-pass", WRONG_OF_A_KEY),
                ("CONFIG", "SET", "tls-key-file-pass-file", wrong_file),
                ("CONFIG", "GET", "tls-*"),
            ):
                other.send(request(*(word.encode() for word in line)))
                shown.add("replies to clients", read_reply(other))
            client.config_set("requirepass", PASSWORD)
        client.echo("the end")
        while b"the end" not in shown.texts.get("MONITOR", b""):
            shown.add("MONITOR", monitor.socket.recv(1 << 16))


def read_reply(client: RawClient) -> bytes:
    line = client.read_line()
    if line[:1] == b"*":
        return b"".join([line, *(read_reply(client) for _ in range(int(line[1:])))])
    if line[:1] == b"$" and line != b"$-1":
        return client.read(int(line[1:]) + 2)
    return line


def ask_all(shown: Shown, node: Node) -> None:
    """Replies in which a node tells of itself and of others."""
    for line in (
        *("INFO everything", "CONFIG GET *", "CLIENT LIST", "CLIENT INFO", "SLOWLOG GET -1"),
        *("LATENCY LATEST", "LATENCY DOCTOR", "LATENCY HISTOGRAM", "MEMORY DOCTOR"),
        *("MEMORY STATS", "ACL LIST", "ACL GETUSER default", "ACL USERS"),
        *("CONFIG REWRITE", "DEBUG CONFIG-REWRITE-FORCE-ALL", "ROLE"),
    ):
        try:
            found = node.client.execute_command(*line.split())
        except redis.ResponseError as error:
            found = error
        shown.add(line, repr(found))


def test_secrets_are_shown_nowhere(cluster: Cluster, tmp_path: Path) -> None:
    node, shown = cluster[1], Shown()
    right, wrong = tmp_path / "right", tmp_path / "wrong"
    key = tmp_path / "key.pem"
    right.write_text(f"{PASSWORD}\n")
    wrong.write_text(f"{WRONG_CALLER}\n")
    key.write_bytes(f"{IN_A_WRONG_FILE}\xff\n".encode("latin-1"))
    for path in (right, wrong, key):
        path.chmod(0o600)
    at = ("--address", node.grpc_address)

    # Commands of operators, with the right password and a wrong one.
    copy = tmp_path / "copy"
    for password, status in ((right, 0), (wrong, 1), (key, 2)):
        assert run(shown, "status", *at, password=password) == status
        assert run(shown, "crdb", "list", *at, password=password) == status
        folder = copy if status == 0 else tmp_path / f"copy {status}"
        given = ("backup", str(folder), "--address", node.grpc_address)
        assert run(shown, *given, password=password) == status
    joiner = Joiner(tmp_path, 2)
    added = ("crdb", "add-instance", "--instance", joiner.instance)
    token = ("--token-file", str(joiner.token))
    assert run(shown, *added, *token, *at, password=right) == 0, shown.texts
    secret = joiner.token.read_text().strip()
    given = ("backup", str(tmp_path / "later"), "--address", node.grpc_address)
    assert run(shown, *given, password=right) == 0
    note_folder(shown, "later backup", tmp_path / "later")
    note_folder(shown, "backup", copy)
    run_visibly(shown, "status", *at, password=right)
    assert b"status --address" in shown.texts["process list"]

    # A region joins, after one with a wrong token was refused.
    config = tmp_path / "region-2.toml"
    for bad in (wrong, key):
        joining = ("node", "--join", node.grpc_address, "--token-file", str(bad))
        assert (
            run(shown, *joining, "--config", str(config), "--region-dir", str(tmp_path / "x")) != 0
        )
    both = tmp_path / "both.toml"
    both.write_text(f'requirepass = "{SET_BY_CONFIG}"\n' + node.config.read_text())
    assert run(shown, "node", "--config", str(both)) == 2
    settings = load_settings(node.config)
    shown.add("settings as text", f"{settings!r} {settings}")

    # Clients, pages.
    talk(shown, node)
    ask_all(shown, node)
    for page in ("/metrics", "/v1/bdbs", "/v1/crdbs", "/health", "/v1/local/bdbs/1"):
        note_page(shown, node, page, Login(PASSWORD))
        note_page(shown, node, page, Login(WRONG_PAGE))
    note_processes(shown)
    node.end()
    shown.add("log of the node", node.log.read_bytes())
    note_folder(shown, "folder of the node", node.folder)

    # All of it was looked at.
    assert b"mem_clients_normal" in shown.texts["INFO everything"]
    assert b"(redacted)" in shown.texts["MONITOR"]
    assert b"(redacted)" in shown.texts["SLOWLOG GET -1"]
    assert b"WRONGPASS" in shown.texts["replies to clients"]
    # The file was read, and its password tried.
    assert b"tls-key-file-pass-file" in shown.texts["replies to clients"]
    assert b"Unable to update TLS configuration" in shown.texts["replies to clients"]
    assert str(node.config).encode() in shown.texts["process list"]
    assert b"crdtstream_logins_refused_total" in shown.texts["page /metrics"]
    assert any(place.startswith("backup: ") for place in shown.texts)
    for planted in (
        *(PASSWORD, WRONG_CLIENT, WRONG_CALLER, WRONG_PAGE, SET_BY_CONFIG, IN_A_WRONG_FILE),
        *(OF_A_USER, OF_A_KEY, WRONG_OF_A_KEY, secret),
    ):
        assert shown.places_of(planted) == [], planted


def test_a_node_warns_of_passwords_that_others_may_read(tmp_path: Path) -> None:
    password = tmp_path / "requirepass"
    password.write_text(PASSWORD)
    with cluster_of(1, tmp_path) as cluster:
        node = cluster[1]
        node.client = redis.Redis(port=node.resp_port, password=PASSWORD)

        def told(**settings: object) -> str:
            cluster.configure(None, **settings)
            node.log.unlink(missing_ok=True)
            cluster.start()
            node.end()
            text = node.log.read_text()
            assert PASSWORD not in text
            return text

        password.chmod(0o644)
        assert "all users of this machine can read the password" in told(
            requirepass_file=str(password)
        )
        password.chmod(0o600)
        assert "warning" not in told(requirepass_file=str(password))
        aclfile = tmp_path / "users.acl"
        aclfile.write_text(f"user default on >{PASSWORD} ~* &* +@all\n")
        users = {"requirepass_file": str(password), "aclfile": str(aclfile)}
        for mode, is_told in ((0o644, True), (0o600, False)):
            aclfile.chmod(mode)
            warning = "can read the passwords of users, or their hashes; chmod 600 the file"
            assert (warning in told(**users)) is is_told
        node.config.chmod(0o644)
        assert "can read the settings, which have the password" in told(requirepass=PASSWORD)
        os.environ["CRDTSTREAM_REQUIREPASS"] = PASSWORD
        try:
            assert "the password is in the environment (CRDTSTREAM_REQUIREPASS)" in told()
        finally:
            del os.environ["CRDTSTREAM_REQUIREPASS"]


@contextlib.contextmanager
def open_umask() -> Iterator[None]:
    former = os.umask(0)
    try:
        yield
    finally:
        os.umask(former)


def modes_in(folder: Path) -> dict[str, int]:
    """Rights of the group and of others, by file."""
    found = [folder, *folder.rglob("*")]
    return {str(path.relative_to(folder)): path.stat().st_mode & 0o077 for path in found}


def test_a_folder_and_its_backups_are_for_the_node_alone_whatever_the_umask(
    tmp_path: Path,
) -> None:
    with open_umask(), cluster_of(1, tmp_path, program=NODE_PROGRAM) as cluster:
        node, aclfile = cluster[1], tmp_path / "users.acl"
        aclfile.write_text("user default on nopass ~* &* +@all\n")
        cluster.configure(None, aclfile=str(aclfile))
        node.start("--new-database")
        node.client.xadd("s", {"f": "v"})
        node.client.bgsave()
        node.client.acl_save()
        backup, restored = tmp_path / "backup", tmp_path / "restored"
        take = ["crdtstream", "backup", str(backup), "--address", node.grpc_address]
        assert completed(take).returncode == 0
        node.end()
        assert "can open the folder" not in node.log.read_text()
        restore = ["crdtstream", "restore", str(backup), str(restored)]
        assert completed(restore).returncode == 0
        for folder in (node.folder, backup, restored):
            assert set(modes_in(folder).values()) == {0}, modes_in(folder)
        assert aclfile.stat().st_mode & 0o077 == 0

        node.folder.chmod(0o755)
        node.start()
        node.end()
        told = node.log.read_text()
        assert told.count("all users of this machine can open the folder of this region") == 1
        # It is the operator's: it stays as it is.
        assert node.folder.stat().st_mode & 0o777 == 0o755


def test_a_search_finds_secrets_in_each_form() -> None:
    shown = Shown()
    for form in (
        PASSWORD,
        json.dumps({"p": PASSWORD}),
        PASSWORD.encode().hex(),
        Login(PASSWORD).header,
        base64.b64encode(PASSWORD.encode()).decode(),
    ):
        shown.add(form, f"before {form} after")
    assert len(shown.places_of(PASSWORD)) == len(shown.texts)
    assert shown.places_of(WRONG_PAGE) == []
