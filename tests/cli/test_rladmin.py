"""``rladmin`` without nodes: its words, its layouts, and what there is none of here."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner, Result

from crdtstream.admin.client import AdminClient, Survey
from crdtstream.cli import rladmin_status
from crdtstream.cli.rladmin import app
from crdtstream.cli.rladmin_shell import missing_options, option_words
from crdtstream.cli.rladmin_tables import DB_ID, EXTRAS, TABLES, TITLES
from crdtstream.cli.rladmin_values import Room, Seconds, Size, in_list, in_table, size_text
from crdtstream.cli.rladmin_words import EXAMPLES, Asked, WordsError, next_words, parse
from crdtstream.command_line.exit import fail
from crdtstream.command_line.printable import printable
from crdtstream.command_line.reach import LoginOptions, Reach
from crdtstream.core.ids import RegionId
from crdtstream.v1 import admin_pb2 as pb

MIB = 1 << 20


def run(words: str) -> Result:
    return CliRunner().invoke(app, words.split())


# --- Words ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", Asked()),
        ("extra all", Asked(extras=frozenset({"all"}))),
        ("issues_only", Asked(issues_only=True)),
        ("nodes sort version NODE:ID", Asked("nodes", sort=("VERSION", "NODE:ID"))),
        ("shards node 2 db db:1", Asked("shards", node=2, databases=("db:1",))),
        ("shards node node:2", Asked("shards", node=2)),
        (
            "endpoints extra watchdog backups sort ROLE issues_only",
            Asked(
                "endpoints",
                extras=frozenset({"watchdog", "backups"}),
                sort=("ROLE",),
                issues_only=True,
            ),
        ),
        (
            "modules db a b extra module_id",
            Asked("modules", None, ("a", "b"), frozenset({"module_id"})),
        ),
    ],
)
def test_words_of_status_are_as_documented(words: str, expected: Asked) -> None:
    assert parse(words.split()) == expected


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("tables", "'tables' cannot stand here; nodes, databases, endpoints"),
        ("nodes shards", "'shards' cannot stand here; node, db, extra, sort, issues_only can"),
        ("nodes node x", "node x: one number is wanted"),
        ("nodes node 1 2", "node 1 2: one number is wanted"),
        ("nodes sort", "what follows is missing, as in status nodes sort VERSION"),
        ("sort ROLE", "sort: name the table"),
        ("nodes sort SLOTS", "sort SLOTS: nodes have NODE:ID, ROLE"),
        ("nodes extra everything", "extra everything: there is all, backups"),
        ("issues_only yes", "issues_only stands alone"),
    ],
)
def test_words_that_make_no_sense_are_refused_with_those_that_do(words: str, expected: str) -> None:
    with pytest.raises(WordsError) as raised:
        parse(words.split())
    assert expected in str(raised.value)
    done = run(f"status {words} --address 127.0.0.1:1")
    assert (done.exit_code, done.stdout) == (2, "")


@pytest.mark.parametrize("table", [None, *TABLES])
def test_every_word_that_is_offered_can_stand_there(table: str | None) -> None:
    """Completion and the command know the same words."""
    begun = [] if table is None else [table]
    offered = [words for words in _three_words(begun) if not {"<node>", "<database>"} & set(words)]
    assert len(offered) > 10
    # Only the end may still be missing.
    assert {refusal for words in offered if (refusal := _refusal(words))} <= {
        f"status … {keyword}: what follows is missing, as in {example}"
        for keyword, example in EXAMPLES.items()
    }


def _refusal(words: Sequence[str]) -> str | None:
    try:
        parse(words)
    except WordsError as error:
        return str(error)
    return None


def _three_words(begun: Sequence[str]) -> list[list[str]]:
    found = [list(begun)]
    for _ in range(3):
        found += [[*words, word] for words in found for word in next_words(words)[:6]]
    return found


# --- Layouts --------------------------------------------------------------------------------------

DOCUMENTED = {
    "nodes": "NODE:ID ROLE ADDRESS EXTERNAL_ADDRESS HOSTNAME MASTERS SLAVES OVERBOOKING_DEPTH"
    " SHARDS CORES FREE_RAM PROVISIONAL_RAM VERSION SHA RACK-ID STATUS",
    "databases": "DB:ID NAME TYPE STATUS SHARDS PLACEMENT REPLICATION PERSISTENCE ENDPOINT"
    " EXEC_STATE EXEC_STATE_MACHINE BACKUP_PROGRESS MISSING_BACKUP_TIME REDIS_VERSION",
    "endpoints": "DB:ID NAME ID NODE ROLE SSL WATCHDOG_STATUS",
    "shards": "DB:ID NAME ID NODE ROLE SLOTS USED_MEMORY BACKUP_PROGRESS RAM_FRAG WATCHDOG_STATUS"
    " STATUS",
}
# Without `extra`.
USUAL = {
    "nodes": "NODE:ID ROLE ADDRESS EXTERNAL_ADDRESS HOSTNAME SHARDS CORES FREE_RAM PROVISIONAL_RAM"
    " VERSION STATUS",
    "databases": "DB:ID NAME TYPE STATUS SHARDS PLACEMENT REPLICATION PERSISTENCE ENDPOINT",
    "endpoints": "DB:ID NAME ID NODE ROLE SSL",
    "shards": "DB:ID NAME ID NODE ROLE SLOTS USED_MEMORY STATUS",
}


@pytest.fixture
def regions(monkeypatch: pytest.MonkeyPatch) -> Survey:
    """Answers of eleven regions, of which region 2 refuses writes and region 3 is down."""
    found = Survey()
    for region in (1, 2, *range(4, 12)):
        reply = pb.StatusReply(
            region=region,
            database_id="crdb",
            version="0.1.0",
            resp_address=f"10.0.0.{region}:6380",
            fault="the disk is full" if region == 2 else "",
            resp_tls=region == 1,
        )
        reply.storage.used_memory = region * MIB
        reply.storage.maxmemory = 16 * MIB if region == 1 else 0
        if region == 1:
            reply.machine.MergeFrom(pb.Machine(cores=6, memory=4 << 30, memory_free=3 << 29))
        reply.tunables.add(name="redis-version", value="8.2.3")
        reply.links.add(peer=3, address="10.0.0.3:7380", error="it is down")
        stream = reply.streams.add(key=b"orders\x1b[2J", entries=7)
        stream.lanes.add(origin=1, entries=7)
        stream.groups.add(name=b"workers", consumers=1, pending=2, lag=3)
        found.replies[RegionId(region)] = reply
        found.addresses[RegionId(region)] = f"10.0.0.{region}:7380"
    found.unreachable["10.0.0.3:7380"] = "no region node answers at 10.0.0.3:7380"
    monkeypatch.setattr(rladmin_status, "find_regions", lambda *_, **__: found)
    members = pb.MembersReply(members=[pb.MemberStatus(region=1, name="eu")])
    monkeypatch.setattr(AdminClient, "members", lambda _: members)
    return found


def table(words: str) -> list[list[str]]:
    """The lines below the heading of one table, cut into columns where the titles begin."""
    done = run(f"status {words}")
    assert done.exit_code == 1
    _, *lines = done.stdout.splitlines()
    places = [at for at, _ in enumerate(lines[0]) if at == 0 or lines[0][at - 2 : at] == "  "]
    places = [at for at in places if lines[0][at] != " "]
    return [
        [line[a:b].strip() for a, b in zip(places, [*places[1:], None], strict=True)]
        for line in lines
    ]


@pytest.mark.parametrize("name", DOCUMENTED)
@pytest.mark.usefixtures("regions")
def test_columns_are_the_documented_ones_in_their_order(name: str) -> None:
    assert table(name)[0] == USUAL[name].split()
    assert table(f"{name} extra all")[0] == DOCUMENTED[name].split()


@pytest.mark.parametrize("extra", [one for one in EXTRAS if one not in ("all", "address")])
@pytest.mark.usefixtures("regions")
def test_an_extra_adds_only_documented_columns(extra: str) -> None:
    for name, documented in DOCUMENTED.items():
        titles = table(f"{name} extra {extra}")[0]
        assert set(USUAL[name].split()) <= set(titles)
        assert [one for one in documented.split() if one in titles] == titles


@pytest.mark.usefixtures("regions")
def test_the_status_has_all_tables_behind_its_head() -> None:
    lines = run("status").stdout.splitlines()
    assert lines[:5] == [
        "CLUSTER:",
        "NOT OK. Cluster master: N/A (every region takes writes)",
        "Cluster health: NOT OK, [N/A, N/A, N/A]",
        "failures/minute - avg1 N/A, avg15 N/A, avg60 N/A.",
        "",
    ]
    headings = [line for line in lines if line.endswith(":")]
    assert headings == [
        *("CLUSTER:", "CLUSTER NODES:", "DATABASES:", "ENDPOINTS:", "SHARDS:", "LINKS:"),
    ]


@pytest.mark.usefixtures("regions")
def test_the_asked_node_has_a_star_and_others_their_state() -> None:
    rows = table("nodes")
    assert [row[0] for row in rows[1:]] == ["*node:1", *(f"node:{n}" for n in range(2, 12))]
    assert [row[-1] for row in rows[1:4]] == ["OK", "FAULT: the disk is full", "DOWN"]
    assert rows[1][4] == "eu"
    assert rows[2][4] == "region-2"
    assert rows[1][6:9] == ["6", "1.5GB/4GB", "15MB/16MB"]
    # A node of the version before this one, and one without a bound.
    assert rows[2][6:9] == ["N/A"] * 3


@pytest.mark.usefixtures("regions")
def test_numbers_are_sorted_as_numbers_and_unknown_ones_stand_last() -> None:
    by_memory = [row[2] for row in table("shards sort USED_MEMORY")[1:]]
    assert by_memory == [f"redis:{n}" for n in (1, 2, *range(4, 12), 3)]
    by_node = [row[0] for row in table("nodes sort STATUS NODE:ID")[1:]]
    assert by_node == ["node:3", "node:2", "*node:1", *(f"node:{n}" for n in range(4, 12))]


def test_a_number_of_any_length_is_sorted(regions: Survey) -> None:
    for region, digits in ((1, "9" * 5_000), (4, "0" * 5_000 + "10"), (5, "9")):
        regions.replies[RegionId(region)].version = digits
    found = [row[0] for row in table("nodes sort VERSION")[1:]]
    # That of the others is 0.1.0.
    assert [one for one in found if one in ("*node:1", "node:4", "node:5")] == [
        *("node:5", "node:4", "*node:1")
    ]


@pytest.mark.usefixtures("regions")
def test_only_issues_are_left() -> None:
    assert [row[0] for row in table("nodes issues_only")[1:]] == ["node:2", "node:3"]
    assert [row[3] for row in table("shards issues_only")[1:]] == ["node:2", "node:3"]
    assert [row[3] for row in table("databases issues_only")[1:]] == ["degraded"]


@pytest.mark.usefixtures("regions")
def test_a_node_and_a_database_can_be_named() -> None:
    assert [row[2] for row in table("endpoints node 4")[1:]] == ["endpoint:1:4"]
    assert [row[2] for row in table("endpoints node 4 db crdb")[1:]] == ["endpoint:1:4"]
    for words, said in (("node 99", "no node 99; there are 1, 2, 3"), ("db other", "no database")):
        done = run(f"status endpoints {words}")
        assert (done.exit_code, said in done.stderr) == (2, True)


@pytest.mark.usefixtures("regions")
def test_names_that_clients_chose_drive_no_terminal() -> None:
    assert "\x1b" not in run("status streams").stdout
    assert table("streams node 1")[1][2] == r"orders\x1b[2J"
    assert table("groups node 1")[1][2:] == [r"orders\x1b[2J", "workers", "1", "2", "3"]
    assert printable("grüße\n".encode() + b"\xff") == r"grüße\n\xff"


HOSTILE = "\x1b]0;owned\x07\x9b2J[red]\r"


@pytest.mark.parametrize("words", ["", "nodes", "databases", "endpoints extra address", "links"])
def test_texts_that_a_peer_chose_drive_no_terminal(regions: Survey, words: str) -> None:
    for reply in regions.replies.values():
        reply.fault = reply.version = reply.resp_address = reply.database_id = HOSTILE
        reply.links[0].error = HOSTILE
    regions.unreachable["10.0.0.3:7380"] = HOSTILE
    done = run(f"status {words}")
    assert done.exit_code == 1
    assert r"\x1b]0;owned\x07\x9b2J[red]\r" in done.stdout
    assert r"\x1b]0;owned" in done.stderr
    for text in (done.stdout, done.stderr):
        assert all(one.isprintable() or one == "\n" for one in text)


def test_an_error_that_a_peer_chose_drives_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit):
        fail(f"{HOSTILE}\nagain")
    assert capsys.readouterr().err == "error: \\x1b]0;owned\\x07\\x9b2J[red]\\r\nagain\n"


@pytest.mark.usefixtures("regions")
def test_json_has_all_columns_by_stable_keys_and_plain_values() -> None:
    found = json.loads(run("status --json").stdout)
    assert list(found) == [
        *("cluster", "nodes", "databases", "endpoints", "shards", "links", "unreachable"),
    ]
    assert found["cluster"]["asked"] == "node:1"
    first, second = found["nodes"][:2]
    assert list(first) == [
        title.lower().replace(":", "_").replace("-", "_") for title in DOCUMENTED["nodes"].split()
    ]
    assert first["provisional_ram"] == {"free": 15 * MIB, "all": 16 * MIB}
    assert (first["node_id"], second["provisional_ram"]) == ("node:1", None)
    assert found["endpoints"][0]["ssl"] is True
    assert found["endpoints"][0]["address"] == "10.0.0.1:6380"
    assert found["shards"][0]["used_memory"] == MIB
    assert list(json.loads(run("status shards --json").stdout)) == [
        *("cluster", "shards", "unreachable"),
    ]


def test_modules_are_tables_without_rows(regions: Survey) -> None:
    regions.unreachable.clear()
    regions.replies[RegionId(2)].fault = ""
    done = run("status modules extra all")
    assert (done.exit_code, done.stdout.splitlines()) == (
        0,
        [
            "CLUSTER MODULES:",
            "MODULE  VERSION  MIN_REDIS_VERSION  COMPATIBLE_REDIS_VERSION  ID",
            "",
            "DATABASE MODULES:",
            "DB:ID  NAME  MODULE  VERSION  ARGS  STATUS",
        ],
    )
    assert DB_ID not in done.stdout
    assert "address" not in TITLES["modules"]


@pytest.mark.parametrize(
    ("value", "cell", "listed"),
    [
        (Size(0), "0KB", "0KB (0 bytes)"),
        (Size(1_073_741), "1.02MB", "1.02MB (1073741 bytes)"),
        (Size(300 << 30), "300GB", "300GB (322122547200 bytes)"),
        (Size(2048 << 40), "2048TB", "2048TB (2251799813685248 bytes)"),
        (Size(-1536), "-1.5KB", "-1.5KB (-1536 bytes)"),
        (Seconds(360), "360", "360 seconds"),
        (True, "Yes", "enabled"),
        (False, "No", "disabled"),
        (None, "N/A", "N/A"),
        (7, "7", "7"),
        ("", "", ""),
        (Room(Size(MIB), Size(2 * MIB)), "1MB/2MB", "1MB/2MB"),
    ],
)
def test_values_are_written_as_rladmin_writes_them(
    value: Size | bool | None, cell: str, listed: str
) -> None:
    assert (in_table(value), in_list(value)) == (cell, listed)


def test_a_size_that_rounds_up_takes_the_next_unit() -> None:
    assert size_text(MIB - 1) == "1MB"


# --- What there is none of ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("failover db db:1", "rladmin failover: every region takes writes"),
        ("node 1 remove", "crdtstream crdb add-instance"),
        ("tune cluster slave_ha enabled", "rladmin tune cluster: regions have parameters of the"),
        ("info proxy all", "rladmin info proxy: regions have no proxies"),
    ],
)
def test_a_documented_command_without_use_says_what_there_is_instead(words: str, said: str) -> None:
    done = run(words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


def test_help_lists_commands_in_the_documented_layout() -> None:
    shown = run("help").stdout
    assert shown.startswith("usage: rladmin [options] [command] [command args]\n\nOptions:\n  -y  ")
    assert "\nCommands:\n  exit " in shown
    assert shown.endswith(
        'Use "rladmin help [command]" to get more information on a specific command.\n'
    )
    for name in ("exit", "help", "info", "status", "tune", "verify"):
        assert f"\n  {name} " in shown
    assert run("help info db").stdout.startswith("Usage: rladmin info db ")
    assert run("help nonsense").exit_code == 2


def test_verify_rack_aware_has_the_documented_sentence() -> None:
    for yes in ("-y", "--yes"):
        assert run(f"{yes} verify rack_aware").exit_code == 0
    done = run("verify rack_aware")
    assert (done.exit_code, done.stdout) == (
        0,
        "Cluster policy is not configured for rack awareness.\n",
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("status", ["--address=a:1", "--user=me", "--password-file=p"]),
        ("status nodes --user you", ["--address=a:1", "--password-file=p"]),
        ("status --address b:2", ["--user=me", "--password-file=p"]),
        ("status --dir folder", ["--user=me", "--password-file=p"]),
        ("status --dir=folder", ["--user=me", "--password-file=p"]),
        ("info db", ["--address=a:1", "--user=me", "--password-file=p"]),
        ("help status", []),
        ("verify rack_aware", []),
    ],
)
def test_options_of_the_shell_count_where_a_line_has_none_of_them(
    line: str, expected: list[str]
) -> None:
    presented = LoginOptions(user="me", password_file=Path("p"))
    given = option_words(Reach(address=["a:1"], presented=presented))
    program = typer.main.get_command(app)
    assert missing_options(program, line.split(), given) == expected


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("tune db crdb a 1 b", "each parameter has one value; b has none"),
        ("tune db crdb continue_on_error", "each parameter has one value"),
        ("tune db crdb a 1 a 2", "a stands there twice"),
        ("tune db crdb crdt_repl_backlog max", "crdt_repl_backlog is a number of MB, as 1024, or"),
        (f"tune db crdb crdt_repl_backlog {'9' * 5_000}", "crdt_repl_backlog is a number of MB"),
        (f"info node {'9' * 5_000}", "9: one number is wanted, as in node 2"),
        ("info node x", "node x: one number is wanted"),
        ("verify balance 1", "verify balance takes nothing but: node ID"),
        ("--address 127.0.0.1:1 status", "options stand behind the command"),
    ],
)
def test_misuse_is_refused_before_a_node_is_asked(words: str, said: str) -> None:
    done = run(words)
    assert (done.exit_code, done.stdout) == (2, "")
    assert said in done.stderr


# --- Tune -----------------------------------------------------------------------------------------


@pytest.fixture
def tuned(regions: Survey, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Parameters that the regions are asked to set; region 2 has no `replication_backlog_size`."""
    regions.unreachable.clear()
    for region, reply in regions.replies.items():
        reply.tunables.add(name="maxmemory", value="0", allowed=["a memory value"])
        if region != 2:
            reply.tunables.add(name="replication_backlog_size", value="0", allowed=["a size"])
    asked: list[tuple[str, str]] = []
    monkeypatch.setattr(Reach, "find_regions", lambda *_, **__: regions)
    monkeypatch.setattr(AdminClient, "tune", lambda _, name, value: asked.append((name, value)))
    return asked


def test_a_parameter_that_one_region_lacks_changes_no_other(tuned: list[tuple[str, str]]) -> None:
    done = run("tune db crdb replication_backlog_size 5 --all")
    assert done.exit_code == 1
    assert "region 2: no parameter 'replication_backlog_size'; there are maxmemory" in done.stderr
    assert tuned == []


def test_the_backlog_that_redis_enterprise_calls_auto_is_the_default(
    tuned: list[tuple[str, str]],
) -> None:
    assert run("tune db crdb crdt_repl_backlog Auto").exit_code == 0
    assert tuned == [("replication_backlog_size", str(1 << 30))]


# --- Shell ----------------------------------------------------------------------------------------


def test_no_line_ends_the_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(*_: object, **__: object) -> Survey:
        raise RuntimeError("planted \x1b[2J")

    monkeypatch.setattr(rladmin_status, "find_regions", find)
    digits = "9" * 5_000
    lines = [
        *(f"tune db crdb crdt_repl_backlog {digits}", f"info node {digits}", "status"),
        "verify rack_aware",
    ]
    done = CliRunner().invoke(app, [], input="\n".join(lines))
    assert (done.exit_code, done.stdout) == (
        0,
        "Cluster policy is not configured for rack awareness.\n",
    )
    assert (
        r"error: the command failed by a bug (RuntimeError: planted \x1b[2J); please report it"
        in done.stderr
    )
    assert len(done.stderr.splitlines()) == 3
