"""The program ``rladmin``: the commands that operators of Redis Enterprise know, on our regions.

A cluster of that tool is all regions of a database here, and a node is a region; the database is
named by the database id (``crdb``) or ``db:1``.  Without a command it is a shell
(``rladmin_shell.py``).
"""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, TypeAlias

import typer
from typer.core import TyperGroup

from crdtstream.cli.rladmin_asking import (
    check_database,
    check_node,
    cluster_of,
    fail_if_unreachable,
    number_of,
    one_of,
)
from crdtstream.cli.rladmin_info import about_cluster, about_database, about_node
from crdtstream.cli.rladmin_status import status
from crdtstream.cli.rladmin_tables import DB_ID
from crdtstream.cli.rladmin_tune import DatabaseArgument, tune_db
from crdtstream.cli.rladmin_values import Value, in_list, plain
from crdtstream.cli.tables import print_columns
from crdtstream.command_line.completing import line_to_complete, print_candidates
from crdtstream.command_line.exit import refuse
from crdtstream.command_line.groups import with_groups
from crdtstream.command_line.options import JsonOption
from crdtstream.command_line.printable import printable
from crdtstream.command_line.reach import Reach, RegionOption, answering
from crdtstream.command_line.watching import Watchable, WatchOption, print_json, watched
from crdtstream.core.ids import RegionId


class _Documented(TyperGroup):
    """Commands, some of which Redis Enterprise documents and a region has no use for."""

    # By the missing command: what there is instead.
    instead: ClassVar[Mapping[str, str]] = {}

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] in self.instead:
            # Of the program itself, whatever it was started by, there is no name.
            within = [ctx.info_name] if ctx.parent else []
            refuse(f"{' '.join(['rladmin', *within, args[0]])}: {self.instead[args[0]]}")
        return super().resolve_command(ctx, args)


class _Rladmin(_Documented):
    instead: ClassVar = {
        "bind": "every region has its own endpoint, set by `host` and `resp_port` in its file",
        "cluster": "regions are members of a database: see `crdtstream crdb --help`",
        "failover": "every region takes writes; clients move to another one (docs/failover.md)",
        "metrics": "each node has /metrics; see docs/metrics.md",
        "migrate": "every region has all data; there is nothing to move",
        "node": "see `crdtstream crdb add-instance`, `update` and `remove-instance`",
        "placement": "a database has one shard in each region",
        "recover": "a region recovers when its node starts; see docs/operations.md",
        "restart": "stop the process of the node, and start it again",
        "suffix": "addresses of regions are set by `crdtstream crdb update`",
        "upgrade": "stop one node after another, and start it with the new version",
    }


class _Info(_Documented):
    instead: ClassVar = {
        "metrics": "each node has /metrics; `rladmin info db` has its figures",
        "proxy": "regions have no proxies; `rladmin info node` has their addresses",
    }


class _Tune(_Documented):
    instead: ClassVar = dict.fromkeys(
        ("cluster", "node", "proxy"),
        "regions have parameters of the database only: see `rladmin tune db --help`",
    )


app = typer.Typer(
    name="rladmin",
    cls=_Rladmin,
    help="Status and tuning of region nodes, in rladmin's syntax; without a command, a shell.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
info_app = typer.Typer(cls=_Info, help="Show settings and tunables.", no_args_is_help=True)
tune_app = typer.Typer(cls=_Tune, help="Change tunables, durably.", no_args_is_help=True)
verify_app = typer.Typer(help="Show reports about all regions.", no_args_is_help=True)

NodeArgument: TypeAlias = Annotated[
    str | None, typer.Argument(metavar="[ID]", help="Only this node: 2, or node:2.")
]


@app.callback(invoke_without_command=True)
@with_groups
def rladmin(
    ctx: typer.Context,
    reach: Reach,
    # Scripts give it; nothing here asks.
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Assume Yes for all required user confirmations.")
    ] = False,
) -> None:
    if ctx.invoked_subcommand is None:
        # Here, not above: a single command starts faster without it.
        from crdtstream.cli.rladmin_shell import run_shell

        raise typer.Exit(code=run_shell(app, reach))
    if _are_named(ctx):
        refuse(
            "options stand behind the command, as in: rladmin status --address 127.0.0.1:7381;"
            " before it they are of the shell, which begins without a command"
        )


def _are_named(ctx: typer.Context) -> bool:
    """True if the line names options of the shell: not -y, nor what the environment names."""
    sources = [ctx.get_parameter_source(name) for name in ctx.params if name != "yes"]
    return any(source is not None and source.name == "COMMANDLINE" for source in sources)


# --- info -----------------------------------------------------------------------------------------


@info_app.command("cluster", cls=Watchable)
@with_groups
def info_cluster(
    reach: Reach,
    as_json: JsonOption = False,
    watch: WatchOption = None,
) -> None:
    """Show what all regions have in common.

    Example: rladmin info cluster

    Exit status: 0 shown, 1 no node answers.
    """

    def show() -> None:
        values = about_cluster(cluster_of(reach.find_regions()))
        if as_json:
            print_json(plain(values), watch=watch)
        else:
            _print_values("Cluster configuration:", values)

    watched(watch, show, as_json=as_json)


@info_app.command("node", cls=Watchable)
@with_groups
def info_node(
    reach: Reach,
    node: NodeArgument = None,
    as_json: JsonOption = False,
    watch: WatchOption = None,
) -> None:
    """Show addresses, process, memory and disk of one node, or of all.

    Example: rladmin info node 2

    Exit status: 0 shown, 1 a node does not answer, 2 no such node.
    """
    number = None if node is None else number_of(node)

    def show() -> None:
        cluster = cluster_of(reach.find_regions())
        if number is not None:
            check_node(cluster, number)
            answering(cluster.found, number)
        nodes = list(cluster.found.replies) if number is None else [RegionId(number)]
        shown = {one: about_node(cluster, one) for one in nodes}
        if as_json:
            print_json({f"node:{one}": plain(shown[one]) for one in nodes}, watch=watch)
        else:
            for one in nodes:
                _print_values(f"Command Output: node:{one}", shown[one])
        if number is None:
            fail_if_unreachable(cluster.found)

    watched(watch, show, as_json=as_json)


@info_app.command("db", cls=Watchable)
@with_groups
def info_db(
    reach: Reach,
    database: DatabaseArgument = DB_ID,
    as_json: JsonOption = False,
    watch: WatchOption = None,
    region: RegionOption = None,
) -> None:
    """Show the database as one region has it: tunables, sizes, for whom the log is kept.

    Example: rladmin info db crdb

    Exit status: 0 shown, 1 the node does not answer, 2 no such database.
    """

    def show() -> None:
        found = reach.find_regions()
        node = one_of(found, region)
        check_database(found.replies[node], database)
        values = about_database(cluster_of(found), node)
        name = found.replies[node].database_id
        if as_json:
            print_json({DB_ID: {"name": name, **plain(values)}}, watch=watch)
        else:
            _print_values(f"{DB_ID} [{name}]:", values)

    watched(watch, show, as_json=as_json)


def _print_values(head: str, values: Mapping[str, Value]) -> None:
    typer.echo(printable(head))
    for key, value in values.items():
        typer.echo(f"    {key}: {printable(in_list(value))}")


# --- verify ---------------------------------------------------------------------------------------


@verify_app.command("balance")
@with_groups
def verify_balance(
    reach: Reach,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[node ID]", help="Only this node: node 2."),
    ] = None,
) -> None:
    """List nodes that have no endpoint for clients; in every other region it is with the data.

    Example: rladmin verify balance

    Exit status: 0 listed, 1 a node does not answer, 2 misuse.
    """
    asked = words or []
    if asked and (asked[0] != "node" or len(asked) != 2):
        refuse("verify balance takes nothing but: node ID")
    cluster = cluster_of(reach.find_regions())
    number = number_of(asked[1]) if asked else None
    if number is not None:
        check_node(cluster, number)
    typer.echo("The table presents all of the unbalanced endpoints/nodes in the cluster")
    typer.echo("BALANCE:")
    rows = [
        (f"node:{node}", DB_ID, reply.database_id, "-", "all-nodes", "1", "1")
        for node, reply in cluster.found.replies.items()
        if not reply.resp_address and number in (None, node)
    ]
    print_columns(_BALANCE, rows)
    fail_if_unreachable(cluster.found)


_BALANCE: Final = (
    *("NODE:ID", "DB:ID", "NAME", "ENDPOINT:ID", "PROXY_POLICY", "LOCAL SHARDS"),
    "TOTAL SHARDS",
)


@verify_app.command("rack_aware")
def verify_rack_aware() -> None:
    """Say that racks are not known: each region is a place of its own.

    Example: rladmin verify rack_aware

    Exit status: 0 said.
    """
    typer.echo("Cluster policy is not configured for rack awareness.")


# A value such as -5 is for the node to refuse, with its reason; it is no option.
tune_app.command("db", context_settings={"ignore_unknown_options": True})(tune_db)
app.command(cls=Watchable)(status)
app.add_typer(info_app, name="info")
app.add_typer(tune_app, name="tune")
app.add_typer(verify_app, name="verify")


# --- help -----------------------------------------------------------------------------------------


@app.command("help")
def help_(
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND]", help="As in: help info db.")
    ] = None,
) -> None:
    """Show all commands, or one with its parameters.

    Example: rladmin help status

    Exit status: 0 shown, 2 no such command.
    """
    if words:
        app([*words, "--help"], prog_name="rladmin")
        return
    commands = typer.main.get_command(app).commands.items()  # type: ignore[attr-defined]
    rows = {name: one.get_short_help_str(60) for name, one in commands}
    rows["exit"] = "Leave the shell."
    typer.echo("usage: rladmin [options] [command] [command args]\n\nOptions:")
    typer.echo("  -y  Assume Yes for all required user confirmations.\n\nCommands:")
    for name, text in sorted(rows.items()):
        typer.echo(f"  {name:<8}{text}")
    typer.echo('\nUse "rladmin help [command]" to get more information on a specific command.')


def main() -> None:
    line = line_to_complete()
    if line is None:
        app()
        return
    # Here, not above: commands start faster without it.
    from crdtstream.cli.region_values import rladmin_values

    print_candidates(line, lambda _: typer.main.get_command(app), rladmin_values)


if __name__ == "__main__":
    main()
