"""What pipeline commands share: which nodes, who asks them, where Spark runs.

Nothing of Spark is imported before a command needs it: the rest of the program works without.
"""

import inspect
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer

from crdtstream.cli.discovery import ADMIN_DEFAULT, ADMIN_VARIABLE, DirOption, addresses_of
from crdtstream.cli.exit import MISUSED, fail
from crdtstream.cli.up import DIR_DEFAULT
from crdtstream.local_regions import admin_addresses

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from crdtstream.spark.options import SourceOptions

PASSWORD_VARIABLE: Final = "CRDTSTREAM_PASSWORD"

NodesOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--nodes",
        metavar="HOST:PORT",
        help="gRPC address of a region node; several with commas, or repeated. Without --nodes"
        f" and --dir: {ADMIN_VARIABLE}, else the regions in {DIR_DEFAULT}, else {ADMIN_DEFAULT}.",
    ),
]
UserOption: TypeAlias = Annotated[
    str | None, typer.Option("--user", metavar="NAME", help="For nodes that have a password.")
]
PasswordFileOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--password-file",
        metavar="PATH",
        help=f"File whose first line is the password; default: the variable {PASSWORD_VARIABLE}.",
        exists=True,
        dir_okay=False,
    ),
]
TlsOption: TypeAlias = Annotated[
    bool, typer.Option("--tls", help="Reach nodes over TLS; the options below imply it.")
]
TlsCaOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--tls-ca", metavar="PATH", help="PEM file of the authority that signs nodes' certificates."
    ),
]
TlsCertOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--tls-cert", metavar="PATH", help="PEM file of a certificate to show."),
]
TlsKeyOption: TypeAlias = Annotated[
    Path | None, typer.Option("--tls-key", metavar="PATH", help="PEM file of its key.")
]
FailoverOption: TypeAlias = Annotated[
    float | None,
    typer.Option(
        "--failover",
        metavar="SECONDS",
        help="How long to look for a node that answers; default: 60.",
        min=0,
    ),
]
StreamsOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--streams",
        metavar="PATTERN",
        help="Names, or patterns as for KEYS; several with commas, or repeated. All"
        " streams if absent.",
    ),
]
StartOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="Only entries from this time on, as 2026-01-31T12:00:00Z or in ms since 1970.",
    ),
]
EndOption: TypeAlias = Annotated[
    str | None, typer.Option("--to", metavar="TIME", help="Only entries from before this time.")
]
MasterOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--master",
        metavar="URL",
        help="Where Spark runs, e.g. local[2] or spark://host:7077; if absent on all cores of this"
        " machine.",
    ),
]
ConfOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark; may be repeated."),
]
JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


@dataclass(frozen=True, slots=True)
class Reach:
    """How a job reaches region nodes, and where Spark runs: the options that all jobs share."""

    nodes: NodesOption = None
    folder: DirOption = None
    user: UserOption = None
    password_file: PasswordFileOption = None
    tls: TlsOption = False
    tls_ca: TlsCaOption = None
    tls_cert: TlsCertOption = None
    tls_key: TlsKeyOption = None
    failover: FailoverOption = None
    master: MasterOption = None
    conf: ConfOption = None

    def source(self, streams: list[str] | None = None) -> "SourceOptions":
        """What was given, checked as the data source checks its options; Spark's settings, too.

        Ends the program if it is bad.  Neither Spark nor Java is needed for that.
        """
        from crdtstream.spark.options import OptionsError, SourceOptions

        self._conf()
        given = {
            "nodes": ",".join(_nodes(self.folder, self.nodes)),
            "user": self.user,
            "password": _password(self.password_file),
            "tls": "true" if self.tls else None,
            "tlsCaFile": _path(self.tls_ca),
            "tlsCertFile": _path(self.tls_cert),
            "tlsKeyFile": _path(self.tls_key),
            "failoverSeconds": None if self.failover is None else str(self.failover),
            "streams": ",".join(streams) if streams else None,
        }
        try:
            return SourceOptions.parse(
                {name: text for name, text in given.items() if text is not None}
            )
        except OptionsError as error:
            fail(error, status=MISUSED)

    @contextmanager
    def session(self, name: str, *errors: type[Exception]) -> "Iterator[SparkSession]":
        """A session for one job.

        Args:
            errors: of the job; they end the program with one line.
        """
        from crdtstream.spark.options import OptionsError
        from crdtstream.spark.session import is_running, make_session

        conf = self._conf()
        was_running = is_running()
        # SIGTERM as Ctrl-C: what was begun is given up in good order.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        spark = make_session(f"crdtstream {name}", master=self.master, conf=conf)
        try:
            yield spark
        except OptionsError as error:
            fail(error, status=MISUSED)
        except errors as error:
            fail(error)
        finally:
            if not was_running:
                spark.stop()

    def _conf(self) -> dict[str, str]:
        return dict(map(_setting, self.conf or []))


def reaching(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameter ``reach`` becomes options, one for each field of ``Reach``.

    Typer knows single parameters only; a dozen of them in each job, and again in its call, would
    hide which are the job's own.
    """
    shared = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            annotation=field.type,
            default=field.default,
        )
        for field in fields(Reach)
    ]
    signature = inspect.signature(command)
    own = [one for one in signature.parameters.values() if one.name != "reach"]

    @wraps(command)
    def run(**given: Any) -> None:
        reach = Reach(**{one.name: given.pop(one.name) for one in shared})
        command(reach=reach, **given)

    run.__signature__ = signature.replace(parameters=[*own, *shared])  # type: ignore[attr-defined]
    return run


def require_spark() -> None:
    """Ends the program with one line if Spark is not here; to be called before a job's import."""
    from crdtstream.spark.java import SparkMissingError, find_java
    from crdtstream.spark.session import check_pyspark

    try:
        check_pyspark()
        find_java()
    except SparkMissingError as error:
        fail(error)


def moment_ms(option: str, text: str | None) -> int | None:
    """The first whole millisecond not before a moment; None if none was given."""
    from crdtstream.spark.options import first_ms

    if text is None:
        return None
    try:
        return first_ms(text)
    except ValueError as error:
        fail(f"{option} {text}: {error}", status=MISUSED)


def _nodes(folder: Path | None, given: list[str] | None) -> list[str]:
    if folder is None and not given and ADMIN_VARIABLE not in os.environ:
        return admin_addresses(DIR_DEFAULT) or [ADMIN_DEFAULT]
    return addresses_of(folder, given)


def _password(path: Path | None) -> str | None:
    if path is None:
        return os.environ.get(PASSWORD_VARIABLE)
    lines = path.read_text().splitlines()
    if not lines or not lines[0]:
        fail(f"{path}: there is no password in its first line", status=MISUSED)
    return lines[0]


def _path(path: Path | None) -> str | None:
    # Spark's tasks need not run in the folder that we were started in.
    return None if path is None else str(path.absolute())


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name.strip() or not equals:
        fail(f"--conf {text}: write NAME=VALUE", status=MISUSED)
    return name.strip(), value.strip()
