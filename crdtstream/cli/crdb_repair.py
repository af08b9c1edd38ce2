"""``crdtstream crdb repair``: a damaged key of one region becomes what another region has."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from crdtstream.admin.client import AdminClient, AdminError, Survey, vv_of
from crdtstream.admin.comparing import Comparing, Pair, Verdict
from crdtstream.cli.crdb import GuidOption
from crdtstream.cli.crdb_verify import check_database, lines_of, pair_as_json, part_name, shown
from crdtstream.cli.progress import progress_bar
from crdtstream.command_line.exit import FAILED, fail, refuse
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.options import JsonOption, YesOption
from crdtstream.command_line.reach import Reach, answering
from crdtstream.core.clock import format_vv
from crdtstream.core.comparing import PartKind
from crdtstream.core.ids import REGION_MAX, RegionId
from crdtstream.upkeep.backup import check_free, write_backup
from crdtstream.upkeep.folder_reading import UpkeepError
from crdtstream.v1 import admin_pb2 as pb

# Longest comparison of a changing key, before and after the repair.
_COMPARING_SECONDS: Final = 5.0
_PHASES: Final = {
    pb.RepairProgress.Phase.COPYING: "gets the key of region {source}",
    pb.RepairProgress.Phase.CATCHING_UP: "applies what region {source} had besides",
    pb.RepairProgress.Phase.COMPARING: "compares the key",
    pb.RepairProgress.Phase.REPLACING: "replaces the key",
}


@with_groups
def repair(
    reach: Reach,
    key: Annotated[str, typer.Argument(metavar="KEY", help="The key: a stream, or a string.")],
    region: Annotated[
        int,
        typer.Option(
            "--instance-id", metavar="N", min=1, max=REGION_MAX, help="The region to be repaired."
        ),
    ],
    source: Annotated[
        int,
        typer.Option(
            "--source", metavar="N", min=1, max=REGION_MAX, help="The region whose key is sound."
        ),
    ],
    backup: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Folder for the backup of the region, which is written first; a new or an empty"
            " one. Default: region-N-before-repair-TIME.",
        ),
    ] = None,
    timeout_seconds: Annotated[
        float,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=1,
            help="How long it may take to find what differs; during that time the region takes no"
            " writes.",
        ),
    ] = 60.0,
    yes: YesOption = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what differs, and change nothing.")
    ] = False,
    guid: GuidOption = None,
    as_json: JsonOption = False,
) -> None:
    """Replace a damaged key of one region by what another region has.

    Only damage is repaired: both regions are compared at one version vector, where they must have
    the same, and all entries are read. During that time (some seconds) the region takes no writes;
    reads go on. First a backup of it is written and read back. The content of the damaged key is
    not used; other regions get nothing from the repair. Groups that both regions have keep
    consumers, positions and pending entries; this region delivers entries that were missing or
    wrong.

    Example: crdtstream crdb repair flights --instance-id 2 --source 1 --dry-run

    Exit status: 0 repaired, or with --dry-run damaged; 1 nothing to repair, or not repaired, and
    nothing has changed; 2 misuse, or it is another database.
    """
    if region == source:
        refuse("--instance-id and --source name the same region")
    found = reach.find_regions()
    check_database(found, guid)
    for one in (region, source):
        answering(found, one)
    name = key.encode("utf-8", "surrogateescape")
    with ExitStack() as stack:
        clients = {one: stack.enter_context(found.client(one)) for one in found.addresses}
        asked = _Repair(RegionId(region), RegionId(source), name, timeout_seconds, clients)
        try:
            if dry_run:
                told = asked.outcome(is_rehearsal=True)
                _end(asked, told, None, None, as_json=as_json)
            target = _target(backup, region)
            _ask(asked, found, target, yes=yes)
            with progress_bar() as progress:
                write_backup(clients[asked.region].backup(), target, progress)
            told = asked.outcome()
            pair = asked.compared() if told.record else None
        except (AdminError, UpkeepError) as error:
            fail(error)
        _end(asked, told, target, pair, as_json=as_json)


class _Repair:
    """Repair of a key of ``region``, from ``source``."""

    def __init__(
        self,
        region: RegionId,
        source: RegionId,
        key: bytes,
        seconds: float,
        clients: dict[RegionId, AdminClient],
    ) -> None:
        self.region = region
        self.source = source
        self.key = key
        self._seconds = seconds
        self._clients = clients

    def outcome(self, *, is_rehearsal: bool = False) -> pb.RepairOutcome:
        """Have it done.

        Raises:
            AdminError: nothing has changed; the text says why.
        """
        request = pb.RepairKeyRequest(
            key=self.key, source=self.source, dry_run=is_rehearsal, seconds=self._seconds
        )
        phase = None
        for step in self._clients[self.region].repair_key(request):
            if step.HasField("outcome"):
                return step.outcome
            if step.progress.phase != phase:
                phase = step.progress.phase
                what = _PHASES[phase].format(source=self.source)
                typer.echo(f"region {self.region} {what}", err=True)
        raise AdminError("the node did not say how it ended; compare with `crdtstream crdb verify`")

    def pairs(self) -> list[Pair]:
        """All regions that answer, compared.

        Raises:
            AdminError: one does not answer any more.
        """
        return self._comparing(self._clients)

    def compared(self) -> Pair:
        """The two, compared.

        Raises:
            AdminError: one does not answer any more.
        """
        (pair,) = self._comparing({one: self._clients[one] for one in (self.region, self.source)})
        return pair

    def _comparing(self, clients: dict[RegionId, AdminClient]) -> list[Pair]:
        return Comparing(
            clients, differences_max=1, seconds=_COMPARING_SECONDS, key=self.key
        ).pairs()


def _target(backup: Path | None, region: int) -> Path:
    """Path for the backup; ends the program if it cannot be used."""
    if backup is None:
        backup = Path(time.strftime(f"region-{region}-before-repair-%Y%m%dT%H%M%SZ", time.gmtime()))
    try:
        check_free(backup)
    except UpkeepError as error:
        refuse(error)
    return backup


def _ask(asked: _Repair, found: Survey, target: Path, *, yes: bool) -> None:
    """Say what differs and what will be done, and ask; ends the program unless it is wanted."""
    region, source = asked.region, asked.source
    pairs = asked.pairs() if len(found.replies) > 2 else [asked.compared()]
    for line in _findings(asked, pairs):
        typer.echo(line, err=True)
    typer.echo(
        f"A backup of region {region} is written to {target}. Then its key {shown(asked.key)}"
        f" becomes that of region {source}, if they differ at one version vector, or entries cannot"
        f" be read. During that time region {region} takes no writes.\n"
        f"What only region {region} has of the key is lost there. Groups that only it has are"
        " deleted, with their pending entries; groups that both have keep theirs.",
        err=True,
    )
    if not yes:
        typer.confirm(f"Repair it from region {source}?", abort=True, err=True)


def _findings(asked: _Repair, pairs: Sequence[Pair]) -> Iterator[str]:
    """Lines that say what the digests of all regions show."""
    wanted = {asked.region, asked.source}
    for pair in pairs:
        here = {pair.left, pair.right}
        if here == wanted:
            yield from lines_of(pair)
            if pair.verdict is Verdict.EQUAL:
                yield (
                    f"regions {asked.source} and {asked.region} have equal digests: all entries are"
                    f" read in region {asked.region}, to see whether they can be"
                )
        elif asked.source in here and pair.verdict is Verdict.DIFFERENT:
            (other,) = here - {asked.source}
            yield (
                f"warning: region {other} differs from region {asked.source}, too: be sure that the"
                f" key is sound in region {asked.source} before you go on"
            )


def _end(
    asked: _Repair,
    outcome: pb.RepairOutcome,
    backup: Path | None,
    pair: Pair | None,
    *,
    as_json: bool,
) -> None:
    """Print the outcome, and end."""
    is_damaged = bool(outcome.parts or outcome.unreadable)
    is_equal = pair is None or pair.verdict is not Verdict.DIFFERENT
    if as_json:
        typer.echo(json.dumps(_as_json(asked, outcome, backup, pair), indent=2))
    else:
        for line in _told(asked, outcome, backup, pair):
            typer.echo(line)
    raise typer.Exit(code=0 if is_damaged and is_equal else FAILED)


def _told(
    asked: _Repair, outcome: pb.RepairOutcome, backup: Path | None, pair: Pair | None
) -> Iterator[str]:
    key, region, source = shown(asked.key), asked.region, asked.source
    at = format_vv(vv_of(outcome.vv)) or "-"
    for part in outcome.parts:
        name = part_name(PartKind(part.kind), part.name, part.origin)
        yield f"key {key}: {name} differs from region {source} at {at}"
    if outcome.unreadable:
        yield f"key {key}: entries cannot be read in region {region}: {outcome.unreadable}"
    if not (outcome.parts or outcome.unreadable):
        yield f"Nothing to repair: regions {region} and {source} have the same at {at}."
    elif not outcome.record:
        yield "Nothing has changed: this was a rehearsal (--dry-run)."
    else:
        yield (
            f"Region {region} has key {key} of region {source} ({outcome.bytes} bytes), as record"
            f" {outcome.record} of its log."
        )
    if backup is not None:
        yield f"The backup from before is {backup}."
    if pair is not None:
        yield f"Compared again: {pair.verdict.value}."


def _as_json(
    asked: _Repair, outcome: pb.RepairOutcome, backup: Path | None, pair: Pair | None
) -> dict[str, Any]:
    return {
        "key": shown(asked.key),
        "region": asked.region,
        "from": asked.source,
        "vv": {str(one): n for one, n in vv_of(outcome.vv).items()},
        "differences": [
            {
                "part": PartKind(part.kind).name.lower(),
                "lane": part.origin,
                "group": shown(part.name),
            }
            for part in outcome.parts
        ],
        "unreadable": outcome.unreadable,
        "repaired": bool(outcome.record),
        "record": outcome.record,
        "bytes": outcome.bytes,
        "backup": None if backup is None else str(backup),
        "compared_again": None if pair is None else pair_as_json(pair),
    }
