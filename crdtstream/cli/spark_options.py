"""Options that pipeline commands share: the nodes, the user, and where Spark runs.

Nothing of Spark is imported before a command needs it: the rest of the program works without.
"""

import signal
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeAlias

import typer

from crdtstream.command_line.exit import fail, refuse
from crdtstream.command_line.reach import LoginOptions, Reach

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from crdtstream.spark.options import SourceOptions

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


@dataclass(frozen=True, slots=True)
class JobReach:
    """Options that all jobs share: how they reach region nodes, and where Spark runs."""

    reach: Reach = field(default_factory=Reach)
    tls: Annotated[
        bool,
        typer.Option(
            "--tls",
            help="Reach nodes over TLS by the system's authorities; a named file implies it.",
        ),
    ] = False
    failover: Annotated[
        float | None,
        typer.Option(
            "--failover",
            metavar="SECONDS",
            help="How long to look, among the named nodes, for one that answers; default: 60.",
            min=0,
        ),
    ] = None
    master: MasterOption = None
    conf: ConfOption = None

    def source(self, streams: list[str] | None = None) -> "SourceOptions":
        """Check the options as the data source does, and Spark's settings, too.

        Ends the program if they are wrong.  Needs neither Spark nor Java.
        """
        self._conf()
        return source_options(
            self.reach.addresses(),
            self.reach.presented,
            folder=self.reach.folder,
            tls=self.tls,
            failover=self.failover,
            streams=streams,
        )

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
            refuse(error)
        except errors as error:
            fail(error)
        finally:
            if not was_running:
                spark.stop()

    def _conf(self) -> dict[str, str]:
        return dict(map(_setting, self.conf or []))


def source_options(
    addresses: Iterable[str],
    presented: LoginOptions,
    *,
    folder: Path | None = None,
    tls: bool = False,
    failover: float | None = None,
    streams: Iterable[str] | None = None,
) -> "SourceOptions":
    """Options of the data source; ends the program if they are wrong.

    Args:
        folder: of `crdtstream up`, which may have an operator's certificate.
    """
    from crdtstream.spark.options import OptionsError, SourceOptions

    files = presented.files(folder)
    password = presented.password()
    given = {
        "nodes": ",".join(addresses),
        "user": presented.user,
        "password": password,
        "tls": "true" if tls else None,
        "tlsCaCertFile": _path(files.authorities),
        "tlsCertFile": _path(files.certificate),
        "tlsKeyFile": _path(files.key),
        "failoverSeconds": None if failover is None else str(failover),
        "streams": ",".join(streams) if streams else None,
    }
    try:
        return SourceOptions.parse({name: text for name, text in given.items() if text is not None})
    except OptionsError as error:
        refuse(error)


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
        refuse(f"{option} {text}: {error}")


def _path(path: Path | None) -> str | None:
    # Spark's tasks need not run in the folder that we were started in.
    return None if path is None else str(path.absolute())


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name.strip() or not equals:
        refuse(f"--conf {text}: write NAME=VALUE")
    return name.strip(), value.strip()
