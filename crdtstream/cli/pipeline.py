"""``crdtstream pipeline``: jobs on Spark, and a demo of them all.

Each job is also a plain function of ``crdtstream.spark.jobs``, for a user's own programs.
"""

import json
import os
import tempfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer
from rich.console import Console

from crdtstream.cli.spark_options import (
    ConfOption,
    EndOption,
    JobReach,
    MasterOption,
    StartOption,
    StreamsOption,
    moment_ms,
    require_spark,
)
from crdtstream.cli.tables import new_table, print_table
from crdtstream.command_line.exit import FAILED, fail, refuse
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.options import JsonOption
from crdtstream.local.regions import LocalRegions, LocalRegionsError
from crdtstream.settings.addresses import RESP_PORT_BASE

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

ArchiveArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="PATH", help="Folder of the archive, or a URL that Spark knows.")
]

app = typer.Typer(
    help="Jobs on Spark: archive streams, replay, audit, report (needs Java 17 and the extra"
    " `spark`).",
    no_args_is_help=True,
)


@app.command()
@with_groups
def archive(
    reach: JobReach,
    path: ArchiveArgument,
    streams: StreamsOption = None,
    table_format: Annotated[
        Literal["parquet", "delta"],
        typer.Option("--format", help="Parquet files, or a table of Delta Lake, if that is here."),
    ] = "parquet",
    follow: Annotated[
        bool, typer.Option("--follow", help="Go on until Ctrl-C; else end when all is archived.")
    ] = False,
    batch_seconds: Annotated[
        float, typer.Option("--every", help="Following: seconds between two readings.", min=0)
    ] = 10.0,
    publish_seconds: Annotated[
        float,
        typer.Option(
            "--publish-every", help="Following: seconds until readers see what was read.", min=0
        ),
    ] = 300.0,
    entries_per_batch: Annotated[
        int | None,
        typer.Option(
            help="How many entries one reading takes at most: bounds its time and memory"
            " (PySpark 4.2 and newer).",
            min=1,
        ),
    ] = None,
    file_mib: Annotated[
        int | None, typer.Option(help="Size that files should have, in MiB.", min=1)
    ] = None,
    small_files: Annotated[
        int,
        typer.Option(
            help="How many files of less than half that size a stream may keep for a day.", min=0
        ),
    ] = 4,
    compact: Annotated[
        bool, typer.Option("--compact", help="Merge small files of all days, down to one each.")
    ] = False,
    trim_older_than: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help="Remove from the database what is archived, acknowledged by all groups of its"
            " stream and older than this. Nothing is removed if absent.",
            min=0,
        ),
    ] = None,
    ignore_data_loss: Annotated[
        bool,
        typer.Option(
            "--ignore-data-loss",
            help="Go on where entries were trimmed before they were read; else that is an error.",
        ),
    ] = False,
    verify: Annotated[
        bool,
        typer.Option(
            "--verify",
            help="Archive nothing: read the whole archive again, and compare it with what was"
            " written.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Write streams to Parquet, by stream and date: every entry once, even if programs are killed.

    Another run with the same folder goes on where the last one ended.

    Example: crdtstream pipeline archive archive-folder --streams 'orders:*'

    Exit status: 0 archived, 1 it stopped early (what is archived stays) or files of the archive
    are damaged, 2 an option makes no sense.
    """
    source = reach.source(streams)
    require_spark()
    from crdtstream.spark.jobs import archive as job

    if verify:
        with reach.session("archive", job.ArchiveError) as spark:
            verified = job.verify(spark, path)
        _show("archive, verified", verified, as_json=as_json)
        raise typer.Exit(code=FAILED if verified.faults else 0)
    options = job.ArchiveOptions(
        nodes=source.nodes,
        path=path,
        streams=source.streams,
        format=job.ArchiveFormat(table_format),
        follow=follow,
        batch_seconds=batch_seconds,
        publish_seconds=publish_seconds,
        entries_per_batch_max=entries_per_batch,
        file_bytes=file_mib * 2**20 if file_mib else job.FILE_BYTES_DEFAULT,
        small_files_max=small_files,
        compact=compact,
        trim_older_than_seconds=trim_older_than,
        fail_on_data_loss=not ignore_data_loss,
    )
    with reach.session("archive", job.ArchiveError) as spark:
        outcome = job.archive(spark, options)
    _show("archive", outcome, as_json=as_json)


@app.command()
@with_groups
def replay(
    reach: JobReach,
    path: ArchiveArgument,
    streams: StreamsOption = None,
    start: StartOption = None,
    end: EndOption = None,
    condition: Annotated[
        str,
        typer.Option(
            "--where",
            metavar="SQL",
            help="Only entries for which this holds, as \"fields['dest'] = 'LAX'\".",
        ),
    ] = "",
    target: Annotated[
        str, typer.Option("--to-stream", metavar="NAME", help="All entries go to this stream.")
    ] = "",
    prefix: Annotated[
        str, typer.Option(metavar="TEXT", help="Prefix of the entries' own streams' names.")
    ] = "",
    id_field: Annotated[
        str, typer.Option(metavar="NAME", help="Field that keeps the old ID of an entry.")
    ] = "",
    rate: Annotated[
        float | None, typer.Option(metavar="N", help="Entries per second, at most.", min=0)
    ] = None,
    speedup: Annotated[
        float | None,
        typer.Option(metavar="N", help="How many times as fast as they were written.", min=0),
    ] = None,
    replay_id: Annotated[
        str,
        typer.Option(
            "--id",
            metavar="TEXT",
            help="Name of this replay: a run with the same name goes on where the last one ended."
            " Made from the other options if absent, so the same command goes on, too.",
        ),
    ] = "",
    copies: Annotated[
        bool,
        typer.Option(
            "--with-copies",
            help="Append second copies, too, of what a producer wrote in two regions at once.",
        ),
    ] = False,
    partitions: Annotated[
        int,
        typer.Option(help="How many tasks append at a time; 0: as many as cores, up to 8.", min=0),
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Append an archive's entries to streams: each entry once, even if it is run again.

    Entries get new IDs; those of a stream are appended in the order of their old ones.

    Example: crdtstream pipeline replay archive-folder --rate 5000

    Exit status: 0 all of it is appended, 1 it stopped early (run it again), 2 an option makes no
    sense.
    """
    source = reach.source(streams)
    start_ms, end_ms = moment_ms("--from", start), moment_ms("--to", end)
    require_spark()
    from crdtstream.spark.jobs import replay as job

    options = job.ReplayOptions(
        nodes=source.nodes,
        path=path,
        streams=source.streams,
        start_ms=start_ms,
        end_ms=end_ms,
        where=condition,
        target=os.fsencode(target),
        prefix=os.fsencode(prefix),
        id_field=id_field,
        rate=rate,
        speedup=speedup,
        replay_id=replay_id,
        each_message_once=not copies,
        partitions=partitions,
    )
    with reach.session("replay", job.ArchiveError) as spark:
        outcome = job.replay(spark, options)
    _show("replay", outcome, as_json=as_json)


@app.command()
@with_groups
def audit(
    reach: JobReach,
    streams: StreamsOption = None,
    output: Annotated[
        str,
        typer.Option(
            "--out", metavar="DIR", help="Folder for the report, as Parquet; replaced. Empty: none."
        ),
    ] = "crdtstream-audit",
    duplicate_ids: Annotated[
        Literal["by-mode", "fail", "allow"],
        typer.Option(
            help="Whether entries with the same ID are a fault. by-mode: if all regions are in mode"
            " strict. fail: always. allow: never."
        ),
    ] = "by-mode",
    wait_seconds: Annotated[
        float, typer.Option("--wait", help="Seconds that regions get to become equal.", min=0)
    ] = 60.0,
    as_json: JsonOption = False,
) -> None:
    """Read all regions at one cut, while clients go on, and show where they do not agree.

    One region's address is enough: the peers that it names are audited too.

    Example: crdtstream pipeline audit --streams 'orders:*'

    Exit status: 0 all regions agree, 1 they do not, or a region could not be read, 2 an option
    makes no sense.
    """
    source = reach.source(streams)
    require_spark()
    from crdtstream.spark.jobs import audit as job

    options = job.AuditOptions(
        nodes=source.nodes,
        streams=source.streams,
        output=output,
        duplicate_ids=job.DuplicateIds(duplicate_ids),
        wait_seconds=wait_seconds,
    )
    with reach.session("audit", job.AuditError) as spark:
        outcome = job.audit(spark, options)
    _show("audit", outcome, as_json=as_json)
    raise typer.Exit(code=0 if outcome.clean else FAILED)


@app.command()
@with_groups
def report(
    reach: JobReach,
    output: Annotated[
        str, typer.Argument(metavar="PATH", help="Folder for the page and its tables; replaced.")
    ],
    streams: StreamsOption = None,
    archive: Annotated[
        str, typer.Option(metavar="PATH", help="Read entries from an archive, not from regions.")
    ] = "",
    numeric: Annotated[
        list[str] | None,
        typer.Option(
            "--field",
            metavar="NAME",
            help="Numeric field to summarise, or PATTERN=NAME for some streams; may be repeated.",
        ),
    ] = None,
    window_seconds: Annotated[
        float, typer.Option("--window", metavar="SECONDS", help="Length of a window.", min=0.001)
    ] = 60.0,
    start: StartOption = None,
    end: EndOption = None,
    sample_seconds: Annotated[
        float, typer.Option("--sample", metavar="SECONDS", help="How long to sample lags.", min=0)
    ] = 10.0,
    deliveries: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Pending entries that were delivered more often are dead letters.",
            min=0,
        ),
    ] = 5,
    as_json: JsonOption = False,
) -> None:
    """Write a page about streams and regions: windows of time, lag, throughput, dead letters.

    The page is one file that loads nothing; its data are beside it as Parquet.

    Example: crdtstream pipeline report report-folder --field temp

    Exit status: 0 written, 1 no region answers or the folder cannot be written, 2 an option
    makes no sense.
    """
    source = reach.source(streams)
    start_ms, end_ms = moment_ms("--from", start), moment_ms("--to", end)
    require_spark()
    from crdtstream.spark.jobs import report as job

    try:
        options = job.ReportOptions(
            nodes=source.nodes,
            output=output,
            streams=source.streams,
            archive=archive,
            fields=tuple(map(job.StreamField.parse, numeric or [])),
            window_seconds=window_seconds,
            start_ms=start_ms,
            end_ms=end_ms,
            sample_seconds=sample_seconds,
            deliveries_max=deliveries,
        )
    except ValueError as error:
        refuse(error)
    with reach.session("report", job.ReportError) as spark:
        outcome = job.report(spark, options)
    _show("report", outcome, as_json=as_json)


@app.command()
def demo(
    rows: Annotated[
        int | None, typer.Option(help="How many flights; all 336,776 if absent.", min=3)
    ] = None,
    base_port: Annotated[
        int, typer.Option(help="As for `crdtstream up`: where the three regions listen.")
    ] = RESP_PORT_BASE,
    master: MasterOption = None,
    conf: ConfOption = None,
) -> None:
    """Write a year of flights in three regions, and compare the results of Spark with the file.

    Starts three regions for this, in a folder that is deleted at the end. Region 2 is cut off for a
    while, a streaming query keeps a table of delays, and entries are archived. At the end the
    table, the archive and the regions are compared.

    Example: crdtstream pipeline demo --rows 30000

    Exit status: 0 everything is as in the file, 1 something is not.
    """
    require_spark()
    from crdtstream.demo import flights, flights_report
    from crdtstream.demo.weather import DemoError, Region

    with JobReach(master=master, conf=conf).session("demo", DemoError, LocalRegionsError) as spark:
        year = flights.load(rows)
        with tempfile.TemporaryDirectory(prefix="crdtstream-demo-") as folder:
            local = LocalRegions(len(year.rows), Path(folder, "regions"), base_port=base_port)
            try:
                local.start_all()
                local.wait_until_healthy()
                regions = [
                    Region(own.region, own.resp_port, own.grpc_port) for own in local.regions
                ]
                outcome = flights.run(spark, regions, year, Path(folder, "spark"), say=_say)
            finally:
                local.stop_all()
                local.close()
    flights_report.show(outcome, Console())
    failures = outcome.failures()
    if failures:
        fail("\n  ".join(["these promises do not hold:", *failures]))


def _say(text: str) -> None:
    typer.echo(text, err=True)


# --- Showing outcomes -------------------------------------------------------------------------


def _show(title: str, outcome: "DataclassInstance", *, as_json: bool) -> None:
    """An outcome as JSON, or as a table with a row for each of its attributes."""
    if as_json:
        typer.echo(json.dumps(_plain(outcome), indent=2))
        return
    table = new_table(title, "", "")
    table.show_header = False
    for one in fields(outcome):
        table.add_row(one.name.replace("_", " "), _cell(getattr(outcome, one.name)))
    print_table(table)


def _cell(value: object) -> str:
    match value:
        case None | "" | () | []:
            return "-"
        case Mapping() if not value:
            return "none"
        case Mapping():
            return "\n".join(f"{_cell(name)}: {_cell(inner)}" for name, inner in value.items())
        case list() | tuple():
            return (", " if isinstance(value[0], int) else "\n").join(map(_cell, value))
        case Enum():
            return str(value.value)
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case float():
            return f"{value:,.1f}"
        case int() if not isinstance(value, bool):
            return f"{value:,}"
        case _:
            return str(value)


def _plain(value: object) -> Any:
    """A job's outcome as JSON has it."""
    match value:
        case Enum():
            return value.value
        case bytes():
            return value.decode("utf-8", "backslashreplace")
        case Path() | datetime():
            return str(value)
        case Mapping():
            return {str(_plain(key)): _plain(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_plain(inner) for inner in value]
        case _ if is_dataclass(value):
            return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
        case _:
            return value
