"""A Prometheus of a drill's own: which of the operators' alerts fire, and when.

It is the real server with the real rules (``deploy/alerts.yml``), on a port of this machine, and
looks each second instead of each fifteen:

    with Prometheus({1: "127.0.0.1:8381", 2: "127.0.0.1:8382"}, folder=folder) as prometheus:
        …                                         # make a fault
        prometheus.fired()                        # [("CrdtstreamLinkDown", {"region": "1", …}, at)]

A rehearsal lasts a minute, and rules wait for minutes: ``for:`` and the ranges that rules look back
over are shortened by one factor.  Bounds stay as they are: a lag of five seconds is five seconds.
"""

import contextlib
import json
import re
import shutil
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import yaml

from crdtstream.drill.access import NO_ACCESS, Access
from crdtstream.drill.parse import own_file
from crdtstream.drill.tied import tied

PROGRAM: Final = "prometheus"
INSTALL: Final = "apt-get install prometheus"
RULES: Final = own_file("deploy/alerts.yml")
# As in deploy/alerts.yml, whose rules ask for it.
JOB: Final = "crdtstream"

INTERVAL_SECONDS: Final = 1.0
# 30 seconds of a rule are three.
FACTOR: Final = 0.1
# A range must hold some scrapes, or nothing can be derived from it.
SCRAPES_MIN: Final = 5
POLL_SECONDS: Final = 0.2
CALL_SECONDS_MAX: Final = 5.0
START_SECONDS_MAX: Final = 20.0
END_SECONDS_MAX: Final = 10.0

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_DURATION: Final = re.compile(r"(\d+)(ms|s|m|h|d)")
# [5m], [10m:1m], offset 10m
_LOOKS_BACK: Final = re.compile(r"\[(\w+)(?::(\w+))?\]|\boffset (\w+)")


class PrometheusError(Exception):
    """Prometheus is missing, or does not start; the text says what to do."""


class AlertChange(NamedTuple):
    """An alert that began to wait, fired, or ended.

    Attributes:
        at: time at which that was seen, by ``time.monotonic``.
        labels: without ``alertname``.
        state: ``pending``, ``firing`` or ``gone``.
    """

    at: float
    name: str
    labels: dict[str, str]
    state: str


class Prometheus:
    """A server that runs from ``start`` to ``stop``; as a context manager it does both.

    Attributes:
        address: ``host:port`` of its own pages.
    """

    def __init__(
        self,
        targets: Mapping[int, str],
        *,
        folder: Path,
        rules: Path = RULES,
        factor: float = FACTOR,
        interval_seconds: float = INTERVAL_SECONDS,
        port: int | None = None,
        access: Access = NO_ACCESS,
        https: bool = False,
    ) -> None:
        """Prepare a server; it is not started yet.

        Args:
            targets: by region ``host:port`` of its HTTP page.
            folder: for its configuration, data and log; made if missing.
            rules: the alerts.
            factor: factor of the durations in the rules.
            interval_seconds: between two scrapes, and between two looks at the rules.
            port: port on 127.0.0.1; None: one that is free.
            access: presented to the targets.
            https: the targets' pages are reached by TLS.
        """
        self.address = f"127.0.0.1:{port or _free_port()}"
        self._targets = dict(targets)
        self._access, self._https = access, https
        self._folder = folder
        self._rules = rules
        self._factor = factor
        self._interval_seconds = interval_seconds
        self._process: subprocess.Popen[bytes] | None = None
        self._changes: list[AlertChange] = []
        self._states: dict[tuple[str, tuple[tuple[str, str], ...]], str] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._poller = threading.Thread(target=self._poll_on, daemon=True)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    # --- Starting and stopping ------------------------------------------------------------------

    def start(self) -> None:
        """Start the server; return once it has asked every region for its figures.

        That takes some 6 seconds: Prometheus looks up its targets each 5 seconds.

        Raises:
            PrometheusError: it is missing, or does not start; or the rules are missing.
        """
        program = shutil.which(PROGRAM)
        if program is None:
            raise PrometheusError(f"{PROGRAM} is missing: {INSTALL}")
        config = self._configure()
        log = self._folder / "prometheus.log"
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                tied(
                    [
                        program,
                        f"--config.file={config}",
                        f"--storage.tsdb.path={self._folder / 'data'}",
                        f"--web.listen-address={self.address}",
                        "--log.level=warn",
                    ]
                ),
                stdout=output,
                stderr=output,
                # Ctrl-C is the drill's, which stops it when the faults are taken back.
                start_new_session=True,
            )
        try:
            self._wait_until_ready(log)
        except PrometheusError:
            self._end_process()
            raise
        self._poller.start()

    def give_up(self) -> None:
        """Let a ``start`` that is under way in another thread fail at once."""
        self._stopping.set()

    def stop(self) -> None:
        """Stop it; the changes of alerts are kept."""
        self._stopping.set()
        if self._poller.is_alive():
            self._poller.join()
        self._end_process()

    @property
    def _password_file(self) -> Path:
        """File with the password, while the server runs."""
        return self._folder / "password"

    def _authentication(self) -> dict[str, Any]:
        """Part of the configuration that is needed for targets with TLS, and with a password."""
        found: dict[str, Any] = {}
        if self._https:
            found["scheme"] = "https"
            # It asks the nodes past all proxies, by hosts that their certificates must have.
            found["tls_config"] = {"ca_file": str(self._access.tls_ca_cert_file or "")}
        if self._access.password:
            path = self._password_file
            path.touch(mode=0o600)
            path.write_text(self._access.password)
            found["basic_auth"] = {
                "username": self._access.user,
                "password_file": str(path.resolve()),
            }
        return found

    def _end_process(self) -> None:
        self._password_file.unlink(missing_ok=True)
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def _wait_until_ready(self, log: Path) -> None:
        assert self._process is not None
        deadline = time.monotonic() + START_SECONDS_MAX
        while time.monotonic() < deadline and self._process.poll() is None:
            # It refuses connections first, and then says that it is not ready.
            with contextlib.suppress(PrometheusError):
                if len(self.query("up")) == len(self._targets):
                    return
            if self._stopping.wait(POLL_SECONDS / 4):
                raise PrometheusError(f"{PROGRAM} was stopped while it started")
        tail = log.read_text(errors="replace")[-2_000:]
        raise PrometheusError(f"{PROGRAM} does not start at {self.address}; it says:\n{tail}")

    def _configure(self) -> Path:
        self._folder.mkdir(parents=True, exist_ok=True)
        try:
            text = self._rules.read_text()
        except OSError as error:
            raise PrometheusError(
                f"no alert rules: {self._rules}: {error.strerror}; name a file of rules, such as"
                " deploy/alerts.yml of the sources"
            ) from error
        rules = self._folder / "alerts.yml"
        rules.write_text(
            scaled_rules(text, factor=self._factor, interval_seconds=self._interval_seconds)
        )
        interval = _shown(self._interval_seconds)
        config = self._folder / "prometheus.yml"
        config.write_text(
            yaml.safe_dump(
                {
                    "global": {
                        "scrape_interval": interval,
                        "scrape_timeout": interval,
                        "evaluation_interval": interval,
                    },
                    "rule_files": [str(rules.resolve())],
                    "scrape_configs": [
                        {
                            "job_name": JOB,
                            "honor_labels": True,
                            **self._authentication(),
                            "static_configs": [
                                {"targets": [target], "labels": {"region": str(region)}}
                                for region, target in sorted(self._targets.items())
                            ],
                        }
                    ],
                }
            )
        )
        return config

    # --- Alerts ---------------------------------------------------------------------------------

    def alerts(self) -> list[AlertChange]:
        """Changes of alerts since the start, in order."""
        with self._lock:
            return list(self._changes)

    def fired(self) -> list[tuple[str, dict[str, str], float]]:
        """The alerts that fired since the start: name, labels, and when (``time.monotonic``).

        Raises:
            PrometheusError: it has ended by itself, so it is unknown what would have fired.
        """
        if self._process is not None and self._process.poll() is not None:
            raise PrometheusError(f"{PROGRAM} ended by itself ({self._process.returncode})")
        return [
            (change.name, change.labels, change.at)
            for change in self.alerts()
            if change.state == "firing"
        ]

    def query(self, expression: str) -> list[tuple[dict[str, str], float]]:
        """Value of an expression now: the labels and the value of each series.

        Raises:
            PrometheusError: it cannot be evaluated, or the server does not answer.
        """
        try:
            found = self._get(f"/api/v1/query?query={urllib.parse.quote(expression)}")
        except urllib.error.HTTPError as error:
            raise PrometheusError(f"{expression}: {error.read().decode()}") from error
        except OSError as error:
            raise PrometheusError(
                f"{PROGRAM} at {self.address} does not answer: {error}"
            ) from error
        return [
            (series["metric"], float(series["value"][1]))
            for series in json.loads(found)["data"]["result"]
        ]

    def _poll_on(self) -> None:
        while not self._stopping.wait(POLL_SECONDS):
            # A moment without an answer (a machine that is busy) is no change.
            try:
                found = json.loads(self._get("/api/v1/alerts"))["data"]["alerts"]
            except (OSError, ValueError):
                continue
            self._take(found, time.monotonic())

    def _take(self, found: list[dict[str, Any]], at: float) -> None:
        now: dict[tuple[str, tuple[tuple[str, str], ...]], str] = {}
        for alert in found:
            labels = dict(alert["labels"])
            name = labels.pop("alertname")
            now[name, tuple(sorted(labels.items()))] = alert["state"]
        with self._lock:
            for key, state in [*now.items(), *((key, "gone") for key in self._states)]:
                if now.get(key, "gone") == state != self._states.get(key):
                    self._changes.append(AlertChange(at, key[0], dict(key[1]), state))
            self._states = now

    def _get(self, path: str) -> str:
        with urllib.request.urlopen(
            f"http://{self.address}{path}", timeout=CALL_SECONDS_MAX
        ) as reply:
            text: str = reply.read().decode()
            return text


# --- Rules --------------------------------------------------------------------------------------


def scaled_rules(text: str, *, factor: float, interval_seconds: float) -> str:
    """Rules that wait and look back for a part of their time.

    Args:
        factor: factor of ``for:``, ranges and offsets.
        interval_seconds: between two scrapes; a range holds at least ``SCRAPES_MIN`` of them.
    """
    content = yaml.safe_load(text)
    least = SCRAPES_MIN * interval_seconds

    def looks_back(found: re.Match[str]) -> str:
        span, step, offset = found.groups()
        if offset is not None:
            return f"offset {_shown(_seconds(offset) * factor)}"
        scaled = _shown(max(least, _seconds(span) * factor))
        if step is None:
            return f"[{scaled}]"
        return f"[{scaled}:{_shown(max(interval_seconds, _seconds(step) * factor))}]"

    for group in content["groups"]:
        for rule in group["rules"]:
            rule["expr"] = _LOOKS_BACK.sub(looks_back, rule["expr"])
            if "for" in rule:
                rule["for"] = _shown(_seconds(str(rule["for"])) * factor)
    scaled: str = yaml.safe_dump(content, sort_keys=False, allow_unicode=True)
    return scaled


def _seconds(duration: str) -> float:
    """``1m30s``: 90."""
    return sum(int(count) * _UNITS[unit] for count, unit in _DURATION.findall(duration))


def _shown(seconds: float) -> str:
    return f"{max(1, round(seconds * 1000))}ms"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
