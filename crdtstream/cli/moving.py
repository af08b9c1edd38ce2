"""``crdtstream import`` and ``crdtstream export``: streams and strings from a Redis, and to one."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import typer
import uvloop

from crdtstream.cli.progress import progress_bar
from crdtstream.cli.tables import new_table, print_table, print_text
from crdtstream.command_line.exit import FAILED, fail, refuse
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.options import JsonOption
from crdtstream.command_line.reach import LoginOptions, warn_if_others_may_read
from crdtstream.command_line.stopping import stop_signals
from crdtstream.move.address import Address, parse_address
from crdtstream.move.checking import EntrySum
from crdtstream.move.ends import RETRY_SECONDS, Ends
from crdtstream.move.errors import MoveError
from crdtstream.move.moving import Move, Outcome, Watcher
from crdtstream.move.pages import shown
from crdtstream.move.survey import Selection
from crdtstream.secrets.secret_files import SecretError, read_secret
from crdtstream.settings.addresses import HOST_DEFAULT, RESP_PORT_BASE
from crdtstream.upkeep.check_report import Progress as Shows

Result = TypeVar("Result")

NODE_DEFAULT: Final = f"redis://{HOST_DEFAULT}:{RESP_PORT_BASE + 1}"
PASSWORD_VARIABLE: Final = "CRDTSTREAM_OTHER_PASSWORD"  # noqa: S105 - a name
LINES_EVERY_SECONDS: Final = 5.0
STOP_SECONDS: Final = 0.1
DIGEST_SHOWN: Final = 12
NAMED_MAX: Final = 3

NodeOption: TypeAlias = Annotated[
    str, typer.Option("--node", metavar="URL", help="The region's node, at its Redis port.")
]


@dataclass(frozen=True, slots=True)
class OtherOptions:
    """The login at the server that is no region of ours."""

    other_user: Annotated[
        str | None,
        typer.Option("--other-user", metavar="NAME", help="User at the Redis; or in its URL."),
    ] = None
    other_password_file: Annotated[
        Path | None,
        typer.Option(
            "--other-password-file",
            metavar="PATH",
            help=f"File whose first line is the password there; default: that of the URL, then"
            f" {PASSWORD_VARIABLE}.",
            exists=True,
            dir_okay=False,
        ),
    ] = None
    other_tls_ca_cert_file: Annotated[
        Path | None,
        typer.Option(
            "--other-tls-ca-cert-file",
            metavar="PATH",
            help="With rediss://: the authorities of the Redis; default: those of the system.",
            exists=True,
            dir_okay=False,
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class MoveOptions:
    """Keys to move, and how far."""

    streams: Annotated[
        list[str] | None,
        typer.Option(
            "--streams",
            metavar="PATTERN",
            help="Only streams whose keys match, as of KEYS; may be repeated. Strings then only"
            " with --strings.",
        ),
    ] = None
    strings: Annotated[
        list[str] | None,
        typer.Option("--strings", metavar="PATTERN", help="The same for strings."),
    ] = None
    skip_other_types: Annotated[
        bool,
        typer.Option(
            "--skip-other-types", help="Leave keys that are neither streams nor strings behind."
        ),
    ] = False
    go_on: Annotated[
        bool,
        typer.Option(
            "--continue",
            help="Keys that the target already has are an earlier copy: make them equal. For the"
            " way back.",
        ),
    ] = False
    delete_gone: Annotated[
        bool,
        typer.Option(
            "--delete-gone",
            help="Delete keys and entries that only the target has, even where the source may have"
            " lost them.",
        ),
    ] = False
    follow: Annotated[
        bool,
        typer.Option(
            "--follow",
            help="Go on while producers write to the source, until Ctrl-C; with --cut-over until"
            " the target is only a few thousand entries behind.",
        ),
    ] = False
    cut_over: Annotated[
        bool,
        typer.Option(
            "--cut-over", help="End the move: bring the rest, then compare both ends in full."
        ),
    ] = False
    stop_writes: Annotated[
        bool,
        typer.Option(
            "--stop-writes",
            help="With --cut-over: make the source refuse writes first, by min-replicas-to-write."
            " It goes on to if both ends are equal.",
        ),
    ] = False
    retry_seconds: Annotated[
        float,
        typer.Option(
            "--retry", metavar="SECONDS", help="How long to wait for an end that is down.", min=0
        ),
    ] = RETRY_SECONDS
    as_json: JsonOption = False

    def selection(self) -> Selection:
        return Selection(
            tuple(self.streams or ()),
            tuple(self.strings or ()),
            skip_other_types=self.skip_other_types,
            go_on=self.go_on,
            delete_gone=self.delete_gone,
        )


@with_groups
def import_(
    source: Annotated[
        str, typer.Argument(metavar="SOURCE", help="The Redis or Valkey, as redis://HOST:PORT.")
    ],
    options: MoveOptions,
    other: OtherOptions,
    login: LoginOptions,
    node: NodeOption = NODE_DEFAULT,
) -> None:
    """Bring streams and strings from a Redis or Valkey into a region.

    Entries keep their IDs; groups, pending entries, counters and deadlines come with them. A run
    that was killed goes on where it was, with the same command: nothing comes twice. Until the
    cut-over only this program may write to these keys in the region.

    The region must accept full IDs (crdt_xadd_id_uniqueness_mode semi-strict).

    Example: crdtstream import redis://old:6379 --follow --cut-over --stop-writes

    Exit status: 0 done, with --cut-over both ends are equal; 1 they differ, or an end does not
    answer or refuses; 2 the request makes no sense. After 1 the same command may be run again.
    """
    _run(_other(source, other), _region(node, login), options)


@with_groups
def export(
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="The Redis or Valkey, as redis://HOST:PORT.")
    ],
    options: MoveOptions,
    other: OtherOptions,
    login: LoginOptions,
    node: NodeOption = NODE_DEFAULT,
) -> None:
    """Bring streams and strings from a region into a Redis or Valkey: `import` the other way.

    The lanes of a stream become one stream, by ID. Entries that arrive late from other regions are
    waited for, so stop the producers of all regions and let `crdtstream sync wait` end before the
    cut-over.

    Example: crdtstream export redis://old:6379 --continue --cut-over

    Exit status: 0 done, with --cut-over both ends are equal; 1 they differ, or an end does not
    answer or refuses; 2 the request makes no sense. After 1 the same command may be run again.
    """
    _run(_region(node, login), _other(target, other), options)


def _other(url: str, options: OtherOptions) -> Address:
    """The address of the Redis with its login; ends the program if it has none that serves."""
    address = _parsed(url)
    if address.password is not None:
        typer.echo(
            "warning: the password in the URL is in the list of processes and in the shell's"
            f" history; use --other-password-file or {PASSWORD_VARIABLE}",
            err=True,
        )
    address = address.with_login(options.other_user, _other_password(address, options))
    if address.user is not None and address.password is None:
        # Without a password there is no login: the default user would be used instead.
        refuse(
            f"user {address.user}: its password is missing; name --other-password-file, or set"
            f" {PASSWORD_VARIABLE}"
        )
    if options.other_tls_ca_cert_file is not None and not address.with_tls:
        refuse("--other-tls-ca-cert-file belongs to rediss://")
    return replace(address, authorities=options.other_tls_ca_cert_file)


def _other_password(address: Address, options: OtherOptions) -> str | None:
    """The password of the file, else of the URL, else of the variable."""
    if options.other_password_file is not None:
        warn_if_others_may_read(options.other_password_file)
        try:
            return read_secret(options.other_password_file)
        except SecretError as error:
            refuse(error)
    in_url = address.password
    return os.environ.get(PASSWORD_VARIABLE) if in_url is None else in_url


def _region(url: str, login: LoginOptions) -> Address:
    address = _parsed(url)
    if address.password is None or login.password_file is not None:
        address = address.with_login(login.user, login.password())
    else:
        address = address.with_login(login.user, None)
    files = login.files()
    if any(files) and not address.with_tls:
        refuse(f"{address.name}: with certificates the region is named as rediss://HOST:PORT")
    return replace(
        address,
        certificate=files.certificate,
        key=files.key,
        authorities=files.authorities,
    )


def _parsed(url: str) -> Address:
    try:
        return parse_address(url)
    except MoveError as error:
        refuse(error)


def _run(source: Address, target: Address, options: MoveOptions) -> None:
    if options.stop_writes and not options.cut_over:
        refuse("--stop-writes belongs to --cut-over")
    try:
        with _progress() as watcher, stop_signals("stops\n") as stop:
            outcome = uvloop.run(
                until_stopped(stop.is_set, _move(source, target, options, watcher))
            )
    except MoveError as error:
        fail(error)
    except asyncio.CancelledError:
        if options.follow and not options.cut_over:
            typer.echo("run the same command again to go on, with --cut-over to end", err=True)
            return
        fail("stopped; run the same command again: it goes on where it was")
    if outcome is None:
        typer.echo("everything was brought, nothing compared: --cut-over does", err=True)
        return
    if options.as_json:
        typer.echo(json.dumps(_facts(outcome), indent=2))
    else:
        _show(outcome)
    if not outcome.is_equal:
        raise typer.Exit(code=FAILED)


async def _move(
    source: Address, target: Address, options: MoveOptions, watcher: Watcher
) -> Outcome | None:
    ends = Ends(source, target, retry_seconds=options.retry_seconds, say=watcher.say)
    try:
        move = Move(ends, options.selection(), watcher)
        await move.begin()
        await move.copy()
        if options.follow:
            await move.follow(until_level=options.cut_over)
        if options.cut_over:
            return await move.cut_over(stop_writes=options.stop_writes)
        await move.finish()
        return None
    finally:
        ends.close()


async def until_stopped(
    is_stopped: Callable[[], bool], work: Coroutine[Any, Any, Result]
) -> Result:
    """The result of ``work``, which is cancelled when a signal asks to stop."""
    task = asyncio.create_task(work)
    while not task.done() and not is_stopped():
        await asyncio.wait([task], timeout=STOP_SECONDS)
    # Once: the work then lowers its fence, which another cancellation would interrupt.
    task.cancel()
    return await task


class _Lines:
    """Progress where stderr is no terminal: now and then a line."""

    def __init__(self) -> None:
        self._begun: dict[str, float] = {}
        self._first: dict[str, int] = {}
        self._said: dict[str, float] = {}
        self._ended: set[str] = set()

    def show(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        first = self._first.setdefault(what, done)
        begun = self._begun.setdefault(what, now)
        said = self._said.setdefault(what, now)
        # While a move follows, the total grows and is reached again and again.
        ends = done >= total and what not in self._ended
        if now - said < LINES_EVERY_SECONDS and not ends:
            return
        self._said[what] = now
        if ends:
            self._ended.add(what)
        rate = (done - first) / max(now - begun, 0.001)
        left = f", {(total - done) / rate:.0f} s left" if rate and done < total else ""
        typer.echo(f"{what}: {done} of {total}{left}", err=True)

    def say(self, text: str) -> None:
        typer.echo(text, err=True)


class _Bar:
    """The same on a terminal, with a bar for each piece of work."""

    def __init__(self, show: Shows) -> None:
        self.show = show

    def say(self, text: str) -> None:
        # rich prints above its bars what is written while they are there.
        typer.echo(text, err=True)


@contextmanager
def _progress() -> Iterator[Watcher]:
    if sys.stderr.isatty():
        with progress_bar() as show:
            yield _Bar(show)
    else:
        yield _Lines()


def _show(outcome: Outcome) -> None:
    table = new_table(
        "streams", "stream", ">source", ">target", "digest", ">groups", ">pending", "outcome"
    )
    for one in outcome.streams:
        table.add_row(
            shown(one.key),
            str(one.source.entries),
            str(one.target.entries),
            one.source.digest[:DIGEST_SHOWN],
            str(one.groups),
            str(one.pending),
            "; ".join(one.differences) or "equal",
        )
    if outcome.streams:
        print_table(table)
    for line in _sentences(outcome):
        print_text(line)


def _sentences(outcome: Outcome) -> Iterator[str]:
    """Sentences below the table; the last one is the outcome."""
    if outcome.strings:
        equal = outcome.strings - len(outcome.differing_strings)
        yield f"strings: {equal} of {outcome.strings} are equal"
    for key in outcome.differing_strings[:NAMED_MAX]:
        yield f"  {shown(key)} differs"
    if outcome.expired:
        yield f"{outcome.expired} keys came to their deadline meanwhile, and are gone"
    if outcome.deleted_keys:
        yield f"{outcome.deleted_keys} keys were deleted at the target, as at the source"
    if outcome.deleted:
        yield f"{outcome.deleted} entries were deleted at the target, as at the source"
    dangling = sum(one.dangling for one in outcome.streams)
    if dangling:
        yield (
            f"{dangling} pending entries are not in their stream any more (deleted or trimmed): "
            "they were not brought"
        )
    if outcome.left:
        kinds = ", ".join(f"{count} {shown(kind)}" for kind, count in sorted(outcome.left.items()))
        yield f"left behind: {kinds}"
    if outcome.written_meanwhile:
        named = ", ".join(shown(key) for key in outcome.written_meanwhile[:NAMED_MAX])
        yield (
            f"the source was written to meanwhile ({named}): stop producers and consumers, or use"
            " --stop-writes, then run the same command again"
        )
    if outcome.is_equal:
        yield "equal: source and target have the same"
        if outcome.record_left:
            yield (
                f"the record of the move is still at the target: {outcome.record_left}. Delete it"
                " there before anything is moved again"
            )
        if outcome.fenced is not None:
            yield (
                "the source refuses writes from now on; to take them again there:"
                f" {outcome.fenced.commands}"
            )
    else:
        yield "NOT equal: nothing was given up at the source; go on there"


def _facts(outcome: Outcome) -> dict[str, object]:
    """The outcome for programs."""
    return {
        "equal": outcome.is_equal,
        "fenced": outcome.fenced is not None,
        "streams": [
            {
                "key": shown(one.key),
                "source": _sum_facts(one.source),
                "target": _sum_facts(one.target),
                "groups": one.groups,
                "pending": one.pending,
                "dangling": one.dangling,
                "differences": one.differences,
            }
            for one in outcome.streams
        ],
        "strings": outcome.strings,
        "differing_strings": [shown(key) for key in outcome.differing_strings],
        "written_meanwhile": [shown(key) for key in outcome.written_meanwhile],
        "expired": outcome.expired,
        "deleted": outcome.deleted,
        "deleted_keys": outcome.deleted_keys,
        "left": {shown(kind): count for kind, count in sorted(outcome.left.items())},
    }


def _sum_facts(one: EntrySum) -> dict[str, object]:
    return {
        "entries": one.entries,
        "first": one.first or None,
        "last": one.last or None,
        "digest": one.digest,
    }
