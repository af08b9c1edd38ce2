"""Region nodes as processes of this machine, all in one folder.

    crdtstream-data/
        region-1.toml       settings, written at each start; what CONFIG REWRITE added is kept
        region-1/           the region's log: all that it has acknowledged
        region-1.database   names its database; it outlives the folder
        certificates/       if they speak TLS (``certificates.py``)
        region-1.log        what the process prints
        lock                held while they run: one program at a time

Every node has the reading end of a pipe as its standard input; this program has the writing end.
When it ends, in any way, kill -9 included, the pipe closes, and the nodes notice it and stop.

Always so: ports are checked before the first process starts, so that all regions start or none.
"""

import fcntl
import hashlib
import json
import os
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from crdtstream.access.basic import NO_LOGIN, Login
from crdtstream.admin.client import AdminClient, AdminError, channel_to
from crdtstream.core.ids import REGION_MAX, RegionId
from crdtstream.core.member_changes import TOKEN_BYTES
from crdtstream.settings.addresses import (
    GRPC_PORT_BASE,
    HOST_DEFAULT,
    HTTP_PORT_BASE,
    RESP_PORT_BASE,
)
from crdtstream.settings.node_settings import DATABASE_ID_DEFAULT, ENV_PREFIX
from crdtstream.v1 import admin_pb2

# Replaying a long log takes time; a node that is still replaying is waited for this long.
START_SECONDS_MAX: Final = 300.0
# Longer than the time in which a node's clients may finish.
STOP_SECONDS_MAX: Final = 15.0
POLL_SECONDS: Final = 0.05
# gRPC tries again a second after a node was not listening yet; nodes here start in half of that.
QUICK_TO_CONNECT: Final = (
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 50),
)
LOG_LINES_SHOWN: Final = 15
# A join that is stopped in the middle may go on later.
TOKEN_SECONDS: Final = 86_400.0
# The folder of certificates within the folder of the regions (``certificates.py``).
CERTIFICATES_FOLDER: Final = "certificates"
# Settings that differ between regions must not come to all of them from the environment.
_OWN_VARIABLES: Final = (
    *("REGION", "DIR", "PEERS"),
    *("HOST", "GRPC_HOST", "HTTP_HOST"),
    *("RESP_PORT", "TLS_PORT", "GRPC_PORT", "HTTP_PORT"),
)
# The same of regions with certificates of their own.
_TLS_VARIABLES: Final = (
    *("TLS_CERT_FILE", "TLS_KEY_FILE", "TLS_KEY_FILE_PASS_FILE", "TLS_CA_CERT_FILE"),
    *("TLS_REPLICATION", "TLS_HTTP"),
)

SettingValue = str | int
# A table of the file is a mapping.
Settings = Mapping[str, SettingValue | Mapping[str, SettingValue]]
# Keys of a region's file that are about itself; all others are an operator's choice.
OWN_KEYS: Final = (
    *("region", "dir", "peers"),
    *("host", "grpc_host", "http_host"),
    *("resp_port", "tls_port", "grpc_port", "http_port"),
)


class LocalRegionsError(Exception):
    """The regions cannot be started; the text says why and what to do."""


@dataclass(frozen=True, slots=True)
class LocalRegion:
    """Ports, files and folder of one region."""

    region: RegionId
    resp_port: int
    grpc_port: int
    http_port: int
    config: Path
    data: Path
    log: Path
    token: Path

    @property
    def is_new(self) -> bool:
        """True if nothing of it exists, except a token with which it was to join."""
        return self.token.exists() or not (self.config.exists() or self.data.exists())

    @property
    def resp_address(self) -> str:
        return f"{HOST_DEFAULT}:{self.resp_port}"

    @property
    def grpc_address(self) -> str:
        return f"{HOST_DEFAULT}:{self.grpc_port}"

    @property
    def http_address(self) -> str:
        return f"{HOST_DEFAULT}:{self.http_port}"

    def log_tail(self) -> str:
        """The last lines that the process printed."""
        try:
            lines = self.log.read_text(errors="replace").splitlines()
        except FileNotFoundError:
            return ""
        return "\n".join(lines[-LOG_LINES_SHOWN:])


def layout(count: int, folder: Path, *, base_port: int = RESP_PORT_BASE) -> list[LocalRegion]:
    """Regions 1 to ``count``; r has RESP on base_port + r, gRPC and HTTP 1000 and 2000 further on.

    Raises:
        LocalRegionsError: a port number would exceed 65535, or two would be the same.
    """
    grpc_shift = GRPC_PORT_BASE - RESP_PORT_BASE
    http_shift = HTTP_PORT_BASE - RESP_PORT_BASE
    if not 1 <= count < min(grpc_shift, REGION_MAX + 1):
        raise LocalRegionsError(f"{count} regions: from 1 to {grpc_shift - 1} are possible here")
    if base_port < 0 or base_port + http_shift + count > 65535:
        raise LocalRegionsError(
            f"base port {base_port}: choose one up to {65535 - http_shift - count}"
        )
    folder = folder.absolute()
    return [
        LocalRegion(
            region=RegionId(r),
            resp_port=base_port + r,
            grpc_port=base_port + grpc_shift + r,
            http_port=base_port + http_shift + r,
            config=folder / f"region-{r}.toml",
            data=folder / f"region-{r}",
            log=folder / f"region-{r}.log",
            token=folder / f"region-{r}.token",
        )
        for r in range(1, count + 1)
    ]


def settings_text(
    own: LocalRegion,
    regions: Iterable[LocalRegion],
    settings: Settings,
    *,
    ways: Mapping[RegionId, str] | None = None,
    tls: bool = False,
) -> str:
    """The TOML file of one of the regions.

    Other values in an existing file, from CONFIG REWRITE or by hand, are kept, without
    its comments.

    Args:
        settings: further keys.
        ways: addresses by which it reaches peers, where they are not the peers' own.
        tls: its port for Redis clients speaks TLS, and no other one is there for them.
    """
    ports = {"resp_port": own.resp_port, "tls_port": 0}
    if tls:
        ports = {"resp_port": 0, "tls_port": own.resp_port}
    # A JSON string or number is one of TOML too.
    lines = [
        "# Written by `crdtstream up` at each start; keys that it does not set itself are kept.",
        f"region = {own.region}",
        f"dir = {json.dumps(str(own.data))}",
        f"host = {json.dumps(HOST_DEFAULT)}",
        # Other versions may not know ports that are not there.
        *(f"{key} = {port}" for key, port in ports.items() if tls or port),
        f"grpc_port = {own.grpc_port}",
        f"http_port = {own.http_port}",
    ]
    tables = []
    for key, value in [*settings.items(), *_kept(own.config, [*OWN_KEYS, *settings])]:
        if isinstance(value, Mapping):
            tables += ["", f"[{key}]", *(f"{k} = {json.dumps(v)}" for k, v in value.items())]
        else:
            lines.append(f"{key} = {json.dumps(value)}")
    lines += tables
    for peer in regions:
        if peer.region != own.region:
            lines += ["", "[[peers]]", f"region = {peer.region}"]
            address = (ways or {}).get(peer.region, peer.grpc_address)
            lines += [f"address = {json.dumps(address)}"]
    return "\n".join(lines) + "\n"


def node_by(python: str | Path) -> tuple[str, ...]:
    """The words that start a node by this Python, before its options."""
    return (str(python), "-m", "crdtstream", "node")


def _merged(*given: Settings) -> Settings:
    """All of them, key by key, also within tables; later ones beat earlier ones."""
    found: dict[str, SettingValue | Mapping[str, SettingValue]] = {}
    for settings in given:
        for key, value in settings.items():
            before = found.get(key)
            if isinstance(value, Mapping) and isinstance(before, Mapping):
                value = {**before, **value}
            found[key] = value
    return found


def _kept(path: Path, written: Collection[str]) -> list[tuple[str, Any]]:
    """The keys of an earlier file that are not written again; none if it cannot be read."""
    try:
        before = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return []
    return [(key, value) for key, value in before.items() if key not in written]


class LocalRegions:
    """The processes.

    Args:
        count: regions 1 to ``count``.
        folder: of settings, data and logs; made if missing.
        settings: keys of the node settings, the same for all.
        settings_of: of single regions, besides.
        ways: by (puller, peer) the address by which the one reaches the other, where it is not the
            peer's own.
        environment: further variables for the processes.
        node: the words that start a node, before its options; None: ``crdtstream node``, by the
            Python that runs this.
        tls: the ports for Redis clients and the gRPC ports speak mutual TLS, with certificates in
            the folder; those that are missing are made.  Also if the folder has certificates.

    Raises:
        LocalRegionsError: the ports do not fit, or the folder is in use.
    """

    def __init__(
        self,
        count: int,
        folder: Path,
        *,
        base_port: int = RESP_PORT_BASE,
        settings: Settings | None = None,
        settings_of: Mapping[RegionId, Settings] | None = None,
        ways: Mapping[tuple[RegionId, RegionId], str] | None = None,
        environment: Mapping[str, str] | None = None,
        node: Sequence[str] | None = None,
        tls: bool = False,
    ) -> None:
        self.regions = layout(count, folder, base_port=base_port)
        self._folder, self._base_port = folder, base_port
        self._settings = settings or {}
        self._settings_of = settings_of or {}
        self._ways = ways or {}
        self._environment = environment or {}
        self._node = node or node_by(sys.executable)
        self._processes: dict[RegionId, subprocess.Popen[bytes]] = {}
        self._lock = _lock(folder)
        self._tls = tls or has_certificates(folder)
        self._login = NO_LOGIN
        # Those that have heard that they were removed.
        self.removed: list[LocalRegion] = []
        new = [own for own in self.regions if own.is_new]
        # Those that are to join a database that is there.
        self._joining = new if len(new) < len(self.regions) else []

    def start_all(self, *, begins_database: bool = False) -> None:
        """Start every region.

        Args:
            begins_database: the folder of region 1 is empty, and a new database begins with it.

        Raises:
            LocalRegionsError: a port is taken; nothing was started then.
        """
        _check_ports(self.regions)
        if self._tls:
            self._prepare_certificates()
        for own in self.regions:
            if own not in self._joining:
                self.configure(own.region)
                options = ["--new-database"] if begins_database and own is self.regions[0] else []
                self.start(own.region, *options)

    def expect_one_more(self) -> LocalRegion:
        """Another region, with the next number, that ``join`` is to let in.

        Raises:
            LocalRegionsError: there are no more numbers.
        """
        own = layout(len(self.regions) + 1, self._folder, base_port=self._base_port)[-1]
        self.regions.append(own)
        self._joining.append(own)
        if self._tls:
            self._prepare_certificates()
        return own

    def _prepare_certificates(self) -> None:
        """Make the certificates that are missing, and read the operator's.

        Raises:
            LocalRegionsError: they cannot be made, or used.
        """
        # Here, not above: regions without TLS start faster without it.
        from crdtstream.certificates.errors import CertificateError
        from crdtstream.local.certificates import make_certificates, operator_certificates

        regions = [own.region for own in self.regions]
        try:
            root = self._certificates_folder
            make_certificates(root, regions, database_id=self._database_id, host=HOST_DEFAULT)
            self._login = Login(certificates=operator_certificates(root))
        except CertificateError as error:
            raise LocalRegionsError(str(error)) from error

    @property
    def _database_id(self) -> str:
        """As the nodes find it: in the environment, in what this program writes, in their files."""
        name = f"{ENV_PREFIX}DATABASE_ID"
        kept = dict(_kept(self.regions[0].config, OWN_KEYS))
        found = (
            self._environment.get(name),
            os.environ.get(name),
            self._settings.get("database_id"),
            kept.get("database_id"),
        )
        return str(next((one for one in found if one), DATABASE_ID_DEFAULT))

    def join(self, *, stop: Callable[[], bool] = lambda: False) -> bool:
        """Have the new regions join, one after the other; False if ``stop`` ended it.

        Raises:
            LocalRegionsError: one cannot; the others run.
        """
        for own in list(self._joining):
            with self.client(self.regions[0]) as client:
                self._let_in(client, own)
                self.configure(own.region)
                address = self.regions[0].grpc_address
                files = self._files_to_join(own) if self._tls else []
                self.start(own.region, "--join", address, "--token-file", str(own.token), *files)
                deadline = time.monotonic() + START_SECONDS_MAX
                while not _is_active(client, own.region):
                    if stop():
                        return False
                    self._check_is_starting(own, deadline)
                    time.sleep(POLL_SECONDS)
            own.token.unlink()
            self._joining.remove(own)
        return True

    def _tls_settings(self, region: RegionId) -> Settings:
        from crdtstream.local.certificates import settings_of

        return settings_of(self._certificates_folder, region)

    @property
    def client_options(self) -> list[str]:
        """Options of redis-cli that name a certificate; none without TLS."""
        if not self._tls:
            return []
        from crdtstream.local.certificates import operator_paths

        paths = operator_paths(self._certificates_folder)
        files = ["--cacert", paths.ca, "--cert", paths.certificate, "--key", paths.key]
        # As the folder was given: short enough to be read.
        start, given = str(self._folder.absolute()), str(self._folder)
        return ["--tls", *(str(one).replace(start, given, 1) for one in files)]

    @property
    def console_url(self) -> str:
        """Address of the pages of the first region."""
        return f"{'https' if self._tls else 'http'}://{self.regions[0].http_address}/"

    @property
    def _certificates_folder(self) -> Path:
        return self._folder / CERTIFICATES_FOLDER

    def client(self, own: LocalRegion) -> AdminClient:
        """A client of one of the regions.

        Raises:
            AdminError: over TLS: it does not answer, or has another certificate.
        """
        return AdminClient(own.grpc_address, login=self._login, region=own.region)

    def _files_to_join(self, own: LocalRegion) -> list[str]:
        """Options of ``crdtstream node --join`` that name the certificate of the region."""
        files = self._tls_settings(own.region)
        keys = ("tls_cert_file", "tls_key_file", "tls_ca_cert_file")
        return [word for key in keys for word in (f"--{key.replace('_', '-')}", str(files[key]))]

    def _let_in(self, client: AdminClient, own: LocalRegion) -> None:
        """Have the region added, and its token written.

        Raises:
            LocalRegionsError: it cannot be.
        """
        secret = os.urandom(TOKEN_BYTES)
        add = admin_pb2.AddRegion(
            name=f"region-{own.region}",
            grpc_address=own.grpc_address,
            resp_address=own.resp_address,
            http_address=own.http_address,
            token_sha256=hashlib.sha256(secret).digest(),
            token_expires_ms=round((time.time() + TOKEN_SECONDS) * 1000),
        )
        try:
            members = {one.region for one in client.members().members}
            if own.token.exists() and own.region in members:
                return
            asked = admin_pb2.ChangeMembersRequest(dry_run=True, add=add)
            number = client.change_members(asked).region
            if number != own.region:
                raise LocalRegionsError(
                    f"region {own.region} cannot join: the next number is {number}, as each is"
                    " given once. Add it with `crdtstream crdb add-instance`"
                )
            own.token.write_text(f"{secret.hex()}\n")
            own.token.chmod(0o600)
            client.change_members(admin_pb2.ChangeMembersRequest(add=add))
        except AdminError as error:
            raise LocalRegionsError(f"region {own.region} cannot join: {error}") from error

    def configure(self, region: RegionId, settings: Settings | None = None) -> None:
        """Write the region's settings; ``settings`` beat those that were given for it before."""
        own = self._of(region)
        given = _merged(
            self._settings,
            self._tls_settings(region) if self._tls else {},
            self._settings_of.get(region, {}),
            settings or {},
        )
        ways = {peer: way for (puller, peer), way in self._ways.items() if puller == region}
        # A region that joins is no peer before it is a member; then the folder says where it is.
        regions = [one for one in self.regions if one is own or one not in self._joining]
        text = settings_text(own, regions, given, ways=ways, tls=self._tls)
        own.config.write_text(text)

    def start(self, region: RegionId, *options: str) -> None:
        """Start one region, with the settings and the data that are in the folder.

        Args:
            options: further ones of ``crdtstream node``.
        """
        assert region not in self._processes or self._processes[region].poll() is not None
        own = self._of(region)
        command = [*self._node, "--stop-at-end-of-input", "--config", str(own.config), *options]
        names = (*_OWN_VARIABLES, *(_TLS_VARIABLES if self._tls else ()))
        own_variables = {f"{ENV_PREFIX}{name}" for name in names}
        environment = {
            **{name: value for name, value in os.environ.items() if name not in own_variables},
            **self._environment,
        }
        with own.log.open("ab") as log:
            # A session of its own: Ctrl-C comes to us, and we end the nodes in good order.
            self._processes[region] = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )

    def wait_until_healthy(self, *, stop: Callable[[], bool] = lambda: False) -> bool:
        """Wait until every region answers its health check; False if ``stop`` ended it.

        One that hears that it was removed never will, and is not waited for.

        Raises:
            LocalRegionsError: a process ended, or the time has expired.
        """
        deadline = time.monotonic() + START_SECONDS_MAX
        for own in self.regions:
            if own.region not in self._processes:
                continue
            address, login = own.grpc_address, self._login
            with channel_to(address, login, own.region, QUICK_TO_CONNECT) as channel:
                while not _is_serving(channel):
                    if self._is_removed(own):
                        self.removed.append(own)
                        break
                    if stop():
                        return False
                    self._check_is_starting(own, deadline)
                    time.sleep(POLL_SECONDS)
        return True

    def _is_removed(self, own: LocalRegion) -> bool:
        try:
            with self.client(own) as client:
                return client.status().member_status == admin_pb2.MemberStatus.Status.REMOVED
        except AdminError:
            return False

    def _check_is_starting(self, own: LocalRegion, deadline: float) -> None:
        for region, status in self.ended().items():
            tail = self._of(region).log_tail()
            raise LocalRegionsError(f"region {region} ended at its start ({status}):\n{tail}")
        if time.monotonic() > deadline:
            raise LocalRegionsError(
                f"region {own.region} is not healthy after {START_SECONDS_MAX:.0f} s; see {own.log}"
            )

    def pid(self, region: RegionId) -> int:
        return self._processes[region].pid

    def ended(self) -> dict[RegionId, str]:
        """The regions whose process is no more, and how it ended."""
        codes = {region: process.poll() for region, process in self._processes.items()}
        return {region: _how(code) for region, code in codes.items() if code is not None}

    def forget(self, region: RegionId) -> None:
        """Stop watching a region that ended."""
        _close(self._processes.pop(region).stdin)

    def kill(self, region: RegionId) -> None:
        """kill -9."""
        self._processes[region].kill()
        self._processes[region].wait()

    def stop_all(self) -> list[RegionId]:
        """Let every process end in good order.

        Returns:
            The regions that did not within the time, and were killed; they lose nothing that they
            acknowledged.
        """
        for process in self._processes.values():
            process.terminate()
        deadline = time.monotonic() + STOP_SECONDS_MAX
        killed = []
        for region, process in self._processes.items():
            try:
                process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.kill(region)
                killed.append(region)
            _close(process.stdin)
        self._processes.clear()
        return killed

    def close(self) -> None:
        """Give the folder free; all processes have ended."""
        assert not self._processes
        self._lock.close()

    def _of(self, region: RegionId) -> LocalRegion:
        return self.regions[region - 1]


def has_certificates(folder: Path) -> bool:
    """True if the regions in this folder speak TLS."""
    return (folder / CERTIFICATES_FOLDER).exists()


def admin_addresses(folder: Path) -> list[str]:
    """The gRPC addresses of the regions whose settings are in ``folder``, by region."""
    found = sorted(folder.glob("region-*.toml"), key=lambda path: (len(path.name), path.name))
    ports = [_grpc_port(path) for path in found]
    return [f"{HOST_DEFAULT}:{port}" for port in ports]


def _grpc_port(config: Path) -> str:
    lines = config.read_text().splitlines()
    return next(line.split("=")[1].strip() for line in lines if line.startswith("grpc_port ="))


def _lock(folder: Path) -> IO[str]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = (folder / "lock").open("w")
    except OSError as error:
        raise LocalRegionsError(
            f"{folder} cannot be used: {error.strerror}; choose another folder with --dir"
        ) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise LocalRegionsError(
            f"regions run in {folder} already: stop them, or choose another folder with --dir"
            " (and other ports with --base-port)"
        ) from None
    return lock


def _check_ports(regions: Iterable[LocalRegion]) -> None:
    taken = []
    for own in regions:
        ports = {"RESP": own.resp_port, "gRPC": own.grpc_port, "HTTP": own.http_port}
        taken += [
            f"port {port} ({kind} of region {own.region}) is taken"
            for kind, port in ports.items()
            if not _is_free(port)
        ]
    if taken:
        raise LocalRegionsError(
            f"{'; '.join(taken)}: stop what listens there (ss -ltnp shows it),"
            " or choose others with --base-port"
        )


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST_DEFAULT, port))
        except OSError:
            return False
        return True


def _is_serving(channel: grpc.Channel) -> bool:
    try:
        # Its type information does not know the calls.
        check = health_pb2_grpc.HealthStub(channel).Check  # type: ignore[attr-defined]
        reply = check(health_pb2.HealthCheckRequest(), timeout=1.0)
    except grpc.RpcError:
        return False
    return bool(reply.status == health_pb2.HealthCheckResponse.SERVING)


def _is_active(client: AdminClient, region: RegionId) -> bool:
    active = admin_pb2.MemberStatus.Status.ACTIVE
    try:
        members = client.members().members
    except AdminError:
        return False
    return any(one.region == region and one.status == active for one in members)


def _how(code: int) -> str:
    return f"killed by signal {-code}" if code < 0 else f"exit status {code}"


def _close(pipe: IO[bytes] | None) -> None:
    assert pipe is not None
    pipe.close()
