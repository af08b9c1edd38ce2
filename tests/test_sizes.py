"""Every number of the code is a size, which seeds draw, or stands here with why it is none."""

import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from crdtstream.core.size import Scope, Seconds, Size
from crdtstream.sim.sizes import LARGE_FROM, PACKAGES, Manner, all_sizes, drawn, redraw

SOURCES = Path(__file__).parents[1] / "crdtstream"

# Constants that are no sizes: why, and which.
NO_SIZES = {
    "a width or layout of what is stored or sent": """
        core.checkpoint.contents.ID_BYTES core.checkpoint.contents.SUM_BYTES_MAX
        core.comparing.BUCKETS core.comparing.DIGEST_BYTES
        core.comparing._BUCKET_SHIFT core.comparing._KEYS_END core.comparing._SLOT_SHIFT
        store.staging.ALL_OWNERS core.whole.digest.DIGEST_BYTES
        core.bids.RUN_ID_MAX core.incarnations.BEGINS_MAX core.incarnations.FOLDER_BYTES
        core.incarnations.NUMBER_MAX region.members.membership.RECENT_MAX
        region.numbering.TOLD_BEGINS_MAX
        core.fields.FIELDS_BYTES_MIN
        core.groups.pel_chunk._ID_BYTES core.groups.pel_keys.KEY_SEQ_BITS
        core.groups.pel_keys.KEY_SEQ_END core.groups.pel_keys._KEY_SEQ_MASK
        core.groups.pel_keys._TOO_HIGH_SEQ
        core.groups.pel_keys.REACH_MS core.groups.turns._TURN_BITS
        core.groups.turns._TURN_MS_MAX core.groups.turns._WITHIN_MAX core.id_columns.LOW_HALF
        core.id_columns._HALF_MAX core.ids.SEQ_BITS
        core.ids.U64_MAX core.ids.ID_MIN core.ids.ID_MAX core.issuing.open_batch.COLUMN_BYTES
        core.lanes.header.HEAD_BYTES core.lanes.rax.KEY_BYTES core.uid.UID_BYTES
        core.wire.codec.N_MAX core.wire.codec.ROW_MAX core.wire.codec.EFFECTS_PER_BATCH_MAX
        core.wire.codec.ISSUED_AFTER_MS_MAX core.wire.columns._COMMON_MASK
        core.wire.columns._DIFFERS core.keyspace.counters.I64_MAX core.keyspace.counters.I64_MIN
        commands.arguments._U64_DIGITS commands.arguments.I32_MAX commands.arguments.I32_MIN
        commands.keys.copying.ENTRY_BYTES commands.keys.dumping.HASH_BYTES
        commands.keys.dumping._FRAMING_BYTES_MAX commands.scripts.scripting.SHA1_DIGITS
        commands.streams.budget.STREAM_FRAMING_BYTES
        commands.streams.idempotent_xadd.FIELDS_ID_BYTES commands.streams.xdel_run._ID_BYTES
        database.statistics.PRECISION_BITS
        store.acknowledged.SLOT_BYTES store.acknowledged.FILE_BYTES store.connections.PAGE_BYTES
        replication.wire._BATCHES_TAG replication.wire._SHIFT_MAX store.rows.BATCH_BYTES_MAX
        store.sqlite_staging.VERSION_BYTES store.sqlite_staging.VERSION_OFFSET
        store.staging.CUT_ID_BYTES
        store.connections.WAL_HEADER_BYTES store.wal.HEADER_BYTES
        store.wal.FRAME_HEADER_BYTES store.wal._U32 replication.puller.FRAMING_BYTES_MAX
        resp.wire.parser.STAR resp.wire.parser.ARGUMENT_BYTES_MIN
        resp.wire.xadd_runs._SAME_BYTES
    """,
    "the number of a format, a version or a mark": """
        core.checkpoint.parts.NO_IMAGE core.checkpoint.parts.STAGED core.comparing.NO_BLOCK
        core.comparing.NO_REGION core.groups.mode.NOBODY
        core.groups.pel_chunk.NOBODY
        core.lanes.header.VERSION core.lanes.macro_node.CLOSED core.lanes.residency._WARM
        core.wire.local_codec.UNKNOWN commands.keys.dumping.VERSION
        commands.keys.dumping._ORIGIN commands.keys.dumping._NEVER commands.keys.expiry.NO_KEY
        commands.keys.expiry.NO_DEADLINE commands.keys.expiry._EPOCH
        commands.streams.delete_policies._DELETED commands.streams.delete_policies._NOT_FOUND
        commands.streams.delete_policies._REFERENCED database.dispatch.CONTAINER_ARITY
        database.session.RESP2 database.session.RESP3 region.catching_up.OFF
        region.links.messages.PROTOCOL_VERSION region.staleness.UNBOUNDED
        store.failpoints.EXIT_STATUS store.wal.MAGIC_BIG
        store.wal.MAGIC_LITTLE store.wal.VERSION
        store.connections.INCREMENTAL store.sqlite_staging.COMPLETE store.staging.NOT_SENT
    """,
    "a unit, or a number of mathematics": """
        commands.keys.expiry._MS database.acl.touched.READ database.acl.touched.WRITE
        database.acl.selectors.EVERYTHING commands.keys.expiry._SECOND_MS
        core.keyspace.key_order.CHECKSUM_BITS
        core.keyspace.key_order.GOLDEN_SECTION resp.commands.server.parameters._MIB
        resp.commands.server.memory._PAGE_BYTES region.answering.NS_PER_MS
    """,
    "Redis's number, which clients see": """
        core.lanes.chain._RAX_NODES_OF_NONE core.lanes.chain._RAX_NODES_OF_ONE
        core.footprint.SAMPLES_DEFAULT core.groups.progress.DELIVERY_COUNT_MAX
        core.keyspace.keys.IDMP_DURATION_S_DEFAULT
        core.keyspace.keys.IDMP_MAXSIZE_DEFAULT
        core.producers.idempotency.DURATION_S_MAX core.producers.idempotency.MAXSIZE_MAX
        commands.groups.claiming.ATTEMPTS_PER_COUNT
        commands.groups.claiming.AUTOCLAIM_COUNT_DEFAULT commands.groups.claiming.COUNT_MAX
        commands.groups.xgroup.CREATE_ARGC_MAX commands.keys.keys.SCAN_COUNT_DEFAULT
        commands.keys.objects.EMBEDDED_BYTES_MAX commands.streams.trimming.LIMIT_NODES_DEFAULT
        commands.streams.trimming.LIMIT_DEFAULT_MAX
        commands.streams.trimming.LIMIT_DEFAULT_UNLIMITED_NODES
        commands.streams.xinfo.FULL_COUNT_DEFAULT commands.subcommands.SHOWN_BYTES_MAX
        database.acl.log.GROUPED_MS_MAX
        resp.commands.server.acl.BITS_DEFAULT resp.commands.server.acl.BITS_MAX
        resp.commands.server.acl.SHOWN_DEFAULT
        database.statistics.LEVEL_BITS_FIRST resp.clients.output_limits.WORDS_PER_CLASS
        resp.clients.output_limits.BYTES_MAX resp.clients.output_limits.SECONDS_MAX
        resp.clients.memory_bound.BOUND_BYTES_MIN resp.clients.memory_bound.PERCENT_MAX
        resp.commands.server.latency.SAMPLES_MAX resp.commands.server.latency.GRAPH_COLUMNS
        resp.commands.server.slowlog.ARGUMENTS_MAX
        resp.commands.server.slowlog.ARGUMENT_BYTES_MAX resp.commands.server.slowlog.COUNT_DEFAULT
        resp.commands.server.sparkline.LINES resp.commands.server.tls.PORT_MAX
        resp.transport.listening.BACKLOG
        resp.clients.connection.UNTRUSTED_REPLY_BYTES_MAX
        resp.clients.connection.UNTRUSTED_UNREAD_BYTES_MAX
        resp.wire.parser.UNTRUSTED_ARGUMENTS_MAX resp.wire.parser.UNTRUSTED_BULK_BYTES_MAX
    """,
    "part of a rule that is the same in all regions, for ever": """
        core.effects.EPOCH_MAX core.effects.COUNTER_MAX core.effects.OF_MERGED
        core.membership.members.EPOCHS_MAX core.membership.deciding.COUNTER_MAX
        core.member_changes.INSTANCE_BYTES core.member_changes.HASH_BYTES
        core.member_changes.NAME_LENGTH_MAX core.member_changes.ADDRESS_LENGTH_MAX
        core.member_changes.CERTIFICATES_MAX core.member_changes.CERTIFICATE_LENGTH_MAX
        core.member_changes.SERIAL_BYTES_MAX core.member_changes.SECONDS_MAX
        core.membership.revoked.REVOKED_MAX core.membership.revoked.KEEP_SECONDS
        core.member_changes.CHANGE_BYTES_MAX core.ids.REGION_MAX core.ids.SEQ_STRIDE
        core.lanes.blocks.BLOCK_BITS core.lanes.blocks.LONG core.lanes.blocks.DIGEST_BYTES
        core.lanes.blocks.DIGEST_MASK core.histories.HASH_BITS core.histories.KEPT
        core.histories.UNKNOWN core.histories.SHORT_BITS
        commands.beyond_redis.version_vectors._HASH_DIGITS
    """,
    "what something weighs or takes; nothing is done by it but adding up": """
        core.effects.RECORD_OVERHEAD_BYTES core.effects.REPLAY_RECORD_US
        core.effects.REPLAY_LOCAL_BYTES_PER_US core.footprint.KEY_BYTES core.footprint.LANE_BYTES
        core.footprint.GROUP_BYTES core.footprint.GROUP_LANE_BYTES
        core.footprint.CONSUMER_BYTES core.footprint.PRODUCER_BYTES
        core.footprint.TRACKED_BYTES core.footprint.REGISTERS_BYTES core.footprint.STRING_BYTES
        core.footprint.VALUE_BYTES core.footprint.DEADLINE_BYTES core.footprint.SHARE_BYTES
        core.lanes.residency.NODE_BYTES core.lanes.residency.COLUMNS_BYTES
        core.lanes.residency.HEADER_BYTES core.lanes.residency.OPENED_BYTES
        core.lanes.residency.RUN_BYTES resp.clients.connection.CONNECTION_BYTES
        resp.clients.connection.NAME_BYTES region.links.listeners.OVERHEAD_BYTES
        region.links.publications.OVERHEAD_BYTES store.connections.WAL_BYTES_PER_COMMIT
    """,
    "the default of an argument, for which the simulator has its own": """
        engine.log_cutting.CUT_RECORDS_MIN engine.turns.TURN_NS
    """,
    "shares of the places for clients": """
        resp.clients.newcomers.PART
    """,
    "what is shown of a value, in a message": """
        engine.repairer.SHOWN_BYTES resp.accounts.HASH_DIGITS
    """,
    "when and how long a node looks at memory and disk; test_storage_watch.py drives it": """
        engine.storage_watch.ACCOUNT_SECONDS engine.storage_watch.CLIENTS_REST
        engine.storage_watch.CLIENTS_REST_SECONDS_MAX engine.storage_watch.COMPARE_SECONDS
        engine.storage_watch.DISK_SECONDS engine.storage_watch.FREE_REST
        engine.storage_watch.GIVE_BACK_BYTES engine.storage_watch.GIVE_BACK_SECONDS
        engine.storage_watch.IDLE_REST_SECONDS engine.storage_watch.IDLE_SECONDS
        engine.storage_watch.LEAVING_SECONDS engine.storage_watch.LOG_SECONDS
        engine.storage_watch.LOOKS_LEFT_OUT
        engine.storage_watch.QUIET_LOG_SECONDS engine.storage_watch.QUIET_SECONDS
        engine.storage_watch.REST_SECONDS engine.storage_watch.SLICE_NS
        engine.storage_watch.UNTRIMMED_PART engine.storage_watch.WALK_SECONDS
    """,
    "a bound of which the log warns, and which refuses nothing": """
        resp.accounts.PASSWORD_BYTES_MIN
    """,
    "a level of compression": """
        core.lanes.packing.LEVEL commands.keys.dumping.ZLIB_LEVEL store.rows.LEVEL
        replication.wire.ZSTD_LEVEL
    """,
    "what a decoder takes for damage, or for input of an enemy; it has tests of its own": """
        core.lanes.packing.BODY_BYTES_MAX commands.beyond_redis.version_vectors._BYTES_MAX
        commands.beyond_redis.version_vectors._SHOWN_BYTES_MAX
        commands.documentation.key_specs._COUNT_DIGITS region.links.listeners.NAME_BYTES_MAX
        region.links.acks.NEXT_MS_MAX replication.wire.SAID_BYTES_MAX replication.wire.STAMP_MS_MAX
        replication.wire.DATABASE_ID_LENGTH_MAX
        replication.bootstrap_wire._I64_MAX
        query.append_rows.PRODUCER_BYTES_MAX store.marker._BYTES_MAX core.histories._N_MAX
    """,
    "the default or the range of a setting, which the tests of what it sets set": """
        core.member_changes.TOKEN_BYTES core.member_changes.TOKEN_HOURS
        core.lanes.limits.NODE_ENTRIES_MAX_DEFAULT core.lanes.limits.NODE_BYTES_MAX_DEFAULT
        region.checkpointing.LOG_BYTES_DEFAULT region.checkpointing.LOG_BYTES_LEAST
        region.checkpointing.INTERVAL_S_DEFAULT region.retention.BACKLOG_BYTES_DEFAULT
        region.retention.BACKLOG_TTL_S_DEFAULT region.bootstrap_bounds.BACKLOG_BYTES_DEFAULT
        region.room.BOUND_BYTES_MAX
        region.staleness.LAG_MS_MAX_HIGHEST region.staleness.LAG_EFFECTS_MAX_HIGHEST
        region.tuning.LATENCY_MS_MAX_HIGHEST region.tuning.SECONDS_MAX
        resp.commands.server.about_node.SLEEP_SECONDS_MAX
    """,
    "how often within another time; that one is drawn, or a setting": """
        region.freshness.QUIET_HEARTBEATS region.links.acks.ACKS_WITHIN_SILENCE
        region.links.acks.HEARTBEATS_WITHIN_SILENCE
    """,
    "a limit of the kernel, of SQLite or of the file system": """
        resp.clients.connection.KEEPALIVE_SECONDS_MAX store.sqlite.ROWS_PER_STATEMENT_MAX
        store.connections.FULL_BYTES store.reserve.RESERVE_BYTES store.reserve.ROOM_LEAST_BYTES
    """,
    "the length of a table or cache that is made when the program starts": """
        replication.appends.EXPRESSIONS_MAX resp.wire.xadd_runs.VALUE_BYTES_MAX
    """,
}


def constants() -> Iterator[tuple[str, object]]:
    """All of the code, by name; those that are imported from elsewhere where they are made."""
    for package in PACKAGES:
        of = SOURCES / package
        for path in sorted(of.rglob("*.py")) if of.is_dir() else [of.with_suffix(".py")]:
            text = path.read_text()
            module = ".".join(path.relative_to(SOURCES).with_suffix("").parts)
            loaded = importlib.import_module(f"crdtstream.{module}".removesuffix(".__init__"))
            for name, value in vars(loaded).items():
                is_made_here = f"\n{name}: Final" in text or f"\n{name} = " in text
                if name.isupper() and is_made_here:
                    yield f"{module}.{name}", value


@pytest.mark.house
def test_every_number_is_a_size_or_is_named_as_none() -> None:
    plain = {
        name
        for name, value in constants()
        if isinstance(value, int | float) and not isinstance(value, bool)
    }
    named = [name for names in NO_SIZES.values() for name in names.split()]
    assert len(named) == len(set(named))
    unknown, gone = plain - set(named), set(named) - plain
    assert not unknown, (
        f"make a Size of each, or give the reason in {Path(__file__).name}: {sorted(unknown)}"
    )
    assert not gone, f"no such constants any more: {sorted(gone)}"


@pytest.mark.house
def test_every_size_is_drawn_by_seeds() -> None:
    """Small, large, and as it is."""
    made = {id(value) for _, value in constants() if isinstance(value, Size | Seconds)}
    all_sizes.cache_clear()
    sizes = all_sizes()
    assert made == set(map(id, sizes.values()))
    seen: dict[str, set[float]] = {name: set() for name in sizes}
    for seed in range(60):
        for manner in Manner:
            with drawn(seed, manner):
                for name, size in sizes.items():
                    assert size.least <= size.value <= size.most
                    seen[name].add(size.value)
    for name, size in sizes.items():
        if size.default > size.least:
            assert min(seen[name]) < size.default, name
        assert size.default in seen[name], name


def test_a_seed_says_whether_its_sizes_are_large() -> None:
    """So that the seed alone repeats a history; also when a process begins again."""
    for first, is_large in ((0, False), (LARGE_FROM - 5, False), (LARGE_FROM, True)):
        larger = smaller = 0
        for seed in range(first, first + 5):
            with drawn(seed):
                redraw(seed, 1)
                sizes = [size for size in all_sizes().values() if isinstance(size, Size)]
                larger += sum(size.value > size.default for size in sizes)
                smaller += sum(size.value < size.default for size in sizes)
        assert (larger > 0, smaller > 0) == (is_large, not is_large)


def test_sizes_are_as_before_afterwards() -> None:
    with drawn(1):
        redraw(1, 1)
    assert all(size.value == size.default for size in all_sizes().values())


def test_sizes_that_clients_and_peers_notice_stay() -> None:
    """In a comparison with Redis; and while a region starts again among others."""
    with drawn(2, clients=False):
        told = [size for size in all_sizes().values() if size.scope is Scope.CLIENTS]
        assert all(size.value == size.default for size in told)
    with drawn(2):
        agreed = [size for size in all_sizes().values() if size.scope is Scope.REGIONS]
        before = [size.value for size in agreed]
        redraw(2, 1)
        assert [size.value for size in agreed] == before


@pytest.mark.house
@pytest.mark.parametrize("seed", [0, 4711])
def test_a_seed_draws_the_same_in_every_process(seed: int) -> None:
    program = (
        "from crdtstream.sim.making import Maker; from crdtstream.sim.sizes import *\n"
        f"with drawn({seed}): print([(n, s.value) for n, s in all_sizes().items()])"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    }
    assert len(told) == 1
