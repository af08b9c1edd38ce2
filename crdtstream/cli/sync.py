"""``crdtstream sync``: pause links, resume them, wait until the regions are equal."""

import time
from contextlib import ExitStack
from typing import Annotated, Final, TypeAlias

import typer

from crdtstream.admin.client import AdminError, ForbiddenError, Survey, ends_of, lacking, vv_of
from crdtstream.admin.comparing import Comparing, Verdict
from crdtstream.cli.crdb_verify import lines_of
from crdtstream.command_line.exit import fail
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.reach import Reach, RegionOption, answering, find_regions
from crdtstream.core.ids import REGION_MAX, RegionId
from crdtstream.core.membership.lost import lost_of, told_lost

POLL_SECONDS: Final = 0.05

app = typer.Typer(
    help="Pause the links between regions, resume them, wait for them.", no_args_is_help=True
)

PeerOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--peer", metavar="N", min=1, max=REGION_MAX, help="Only links from this region."),
]


@app.command()
@with_groups
def pause(
    reach: Reach,
    region: RegionOption = None,
    peer: PeerOption = None,
) -> None:
    """Pause links: nothing is pulled over them until they are resumed or the node restarts.

    A link is one direction: --region pulls, --peer is pulled from. Without both, all links are
    paused. To cut region 2 off, pause --region 2 and then --peer 2.

    Example: crdtstream sync pause --region 2 --peer 3

    Exit status: 0 all of them are paused, 1 a node did not answer or has no such peer.
    """
    _set_links(
        reach.find_regions(),
        region,
        peer,
        paused=True,
    )


@app.command()
@with_groups
def resume(
    reach: Reach,
    region: RegionOption = None,
    peer: PeerOption = None,
) -> None:
    """Resume links that were paused; options as of pause.

    Example: crdtstream sync resume --region 2

    Exit status: 0 all of them run, 1 a node did not answer or has no such peer.
    """
    _set_links(
        reach.find_regions(),
        region,
        peer,
        paused=False,
    )


@app.command()
@with_groups
def wait(
    reach: Reach,
    region: RegionOption = None,
    peer: PeerOption = None,
    timeout_seconds: Annotated[
        float,
        typer.Option("--timeout", metavar="SECONDS", help="How long to wait at most.", min=0),
    ] = 30.0,
) -> None:
    """Wait until each region has everything, and compare them as `crdb verify` does.

    "equal" means that their digests are equal, and the line before says how long comparing them
    took. With --region it waits until that region lacks nothing; with --peer until no region lacks
    anything that this one has; then nothing is compared. A removed region is left out, and the
    command says which of its effects are lost. A user needs +@admin to compare, and +info to wait.

    Example: crdtstream sync wait --timeout 10

    Exit status: 0 they are equal, 1 they differ, the time expired (the command says which region
    lacks what, and which links are paused), a node did not answer, the user may not compare, the
    nodes belong to several databases, or --region or --peer names a removed region.
    """
    addresses, login = reach.addresses(), reach.login()
    deadline = time.monotonic() + timeout_seconds
    told: set[str] = set()
    while True:
        found = find_regions(addresses, login)
        _check_database(found)
        _leave_removed_out(found, region, peer, told)
        lines = _lacking_lines(found, region, peer)
        if not lines and (region is not None or peer is not None):
            typer.echo(_told_level(region, peer), err=True)
            return
        if not lines:
            lines = _differences(found, deadline)
        if not lines:
            typer.echo(f"equal: regions {', '.join(map(str, found.replies))}", err=True)
            return
        if time.monotonic() >= deadline:
            fail(f"not equal after {timeout_seconds:g} s:\n" + "\n".join(lines))
        time.sleep(POLL_SECONDS)


def _told_level(region: int | None, peer: int | None) -> str:
    if peer is None:
        return f"region {region} lacks nothing"
    who = "no region lacks anything" if region is None else f"region {region} lacks nothing"
    return f"{who} that region {peer} has"


def _differences(found: Survey, deadline: float) -> list[str]:
    """Lines on what cannot be compared yet; empty if the digests of all regions are equal.

    Ends the program if it is proved that regions differ: waiting does not help.
    """
    if len(found.replies) < 2:
        return []
    began = time.monotonic()
    with ExitStack() as stack:
        clients = {one: stack.enter_context(found.client(one)) for one in found.replies}
        comparing = Comparing(clients, differences_max=1, seconds=max(0.0, deadline - began))
        try:
            pairs = comparing.pairs()
        except ForbiddenError as error:
            fail(
                "each region has everything; whether they are equal is not known, as their digests"
                f" could not be compared: {error}. That needs a user with all commands of @admin"
                " (+@admin), or an operator's certificate without a user. With --region or --peer"
                " nothing is compared, and the right to INFO (+info) is enough"
            )
        except AdminError as error:
            fail(error)
    different = [pair for pair in pairs if pair.verdict is Verdict.DIFFERENT]
    if different:
        fail(
            "the regions have the same effects, and differ:\n"
            + "\n".join(f"  {line}" for pair in different for line in lines_of(pair))
            + "\n`crdtstream crdb verify` shows all differences"
        )
    lines = [f"  {line}" for pair in pairs for line in lines_of(pair)]
    lines += [
        f"  {pair.left} - {pair.right}  {pair.keys_left_out} keys are not compared yet"
        for pair in pairs
        if pair.keys_left_out
    ]
    if not lines:
        typer.echo(f"digests compared in {time.monotonic() - began:.2f} s", err=True)
    return lines


def _check_database(found: Survey) -> None:
    """Version vectors of two databases say nothing about each other."""
    regions: dict[str, list[str]] = {}
    for number, reply in found.replies.items():
        if reply.database_uid:
            regions.setdefault(reply.database_uid, []).append(str(number))
    if len(regions) > 1:
        lines = [f"  {uid}: region {', '.join(numbers)}" for uid, numbers in regions.items()]
        fail(
            "these regions belong to several databases, and never become equal:\n"
            + "\n".join(lines)
            + "\nStop every region of the one to be given up, empty their folders, and start them "
            "without --new-database"
        )


def _leave_removed_out(found: Survey, region: int | None, peer: int | None, told: set[str]) -> None:
    """Leave removed regions out: no region gets their effects beyond the end, and they get none.

    Args:
        told: texts that were printed before, so that each is printed once.
    """
    ends = ends_of(found)
    for removed in sorted(ends.keys() & found.replies.keys()):
        lost = lost_of(vv_of(found.replies[removed].vv), ends)
        why = told_lost(lost) if lost else f"region {removed} {ends[removed].why}"
        if removed in (region, peer):
            fail(f"{why}; wait for regions that are members")
        if why not in told:
            told.add(why)
            typer.echo(f"{why}; its node is left out", err=True)
        del found.replies[removed]
    if not found.replies:
        fail("no node of a region that is a member answers; name one with --address")


def _lacking_lines(found: Survey, region: int | None, peer: int | None) -> list[str]:
    """Lines that say which regions lack which effects; empty if none does."""
    everyone = list(found.replies)
    vvs = {number: vv_of(reply.vv) for number, reply in found.replies.items()}
    lacks = lacking(
        vvs,
        regions=everyone if region is None else [answering(found, region)],
        peers=everyone if peer is None else [answering(found, peer)],
        ends=ends_of(found),
    )
    lines = [
        f"  region {lacker} lacks {count} effects of region {origin}"
        for lacker, counts in lacks.items()
        for origin, count in counts.items()
    ]
    paused = [
        f"{link.peer} → {lacker}"
        for lacker in lacks
        for link in found.replies[lacker].links
        if link.paused
    ]
    if paused:
        lines.append(f"  paused: {', '.join(paused)}; crdtstream sync resume lets them run again")
    return lines + [f"  {why}" for why in found.unreachable.values()]


def _set_links(found: Survey, region: int | None, peer: int | None, *, paused: bool) -> None:
    pullers = list(found.replies) if region is None else [answering(found, region)]
    peers = [] if peer is None else [RegionId(peer)]
    if peers == pullers:
        fail(f"region {peer} has no link to itself: --region pulls, --peer is pulled from")
    done = []
    try:
        for puller in pullers:
            if peers == [puller]:
                continue  # no region pulls from itself
            with found.client(puller) as client:
                links = client.set_links(peers, paused=paused).links
            done += [f"{link.peer} → {puller}" for link in links if peer in (None, link.peer)]
    except AdminError as error:
        fail(error)
    typer.echo(f"{'paused' if paused else 'resumed'}: {', '.join(done)}", err=True)
    if found.unreachable and region is None:
        fail("; ".join(found.unreachable.values()))
