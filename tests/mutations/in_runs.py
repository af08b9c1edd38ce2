"""Planted bugs in runs of XADDs and of XACKs."""

from typing import Final

from tests.mutations.mutation import Mutation

TESTS: Final = "tests/resp/test_xadd_runs.py::"
STOPS: Final = TESTS + "test_what_stops_a_run"
XACKS: Final = "tests/resp/test_xack_runs.py::"
BYTES: Final = TESTS + "test_a_run_reads_as_it_does_byte_by_byte"

RUNS: Final = (
    Mutation(
        "run-passes-who-waits",
        "crdtstream/database/runs.py",
        "            and not self._serving.waiting.has_any(run.key)\n",
        "",
        (STOPS,),
        "a blocked XREAD gets all entries of a pipeline, where Redis gives it the first",
    ),
    Mutation(
        "run-inside-a-transaction",
        "crdtstream/database/runs.py",
        "            and session.queue is None\n",
        "",
        (STOPS,),
        "XADDs are answered with IDs inside MULTI",
    ),
    Mutation(
        "run-hidden-from-monitor",
        "crdtstream/database/runs.py",
        "            and host.on_call is None\n",
        "",
        (STOPS,),
        "MONITOR does not show a pipeline",
    ),
    Mutation(
        "run-overfills-the-batch",
        "crdtstream/database/runs.py",
        "            and host.has_room_in_batch(run.batch_bytes)\n",
        "",
        (TESTS + "test_a_run_does_not_overfill_a_batch",),
        "a pipeline makes a batch that no disk and no peer takes",
    ),
    Mutation(
        "run-outlives-its-ids",
        "crdtstream/commands/streams/xadd_run.py",
        "    return first if id_seq(first) + SEQ_STRIDE * (len(run) - 1) <= U64_MAX else None\n",
        "    return first\n",
        (STOPS,),
        "a sequence does not fit into 64 bits, and the node ends",
    ),
    Mutation(
        "run-counts-as-one-call",
        "crdtstream/database/runs.py",
        "        handler.samples.extend([ns // len(run)] * len(run))\n",
        "        handler.samples.append(ns)\n",
        (STOPS,),
        "INFO commandstats counts pipelines, not commands",
    ),
    Mutation(
        "run-forgets-the-write",
        "crdtstream/database/runs.py",
        "        self._writes.note(session)\n",
        "",
        (STOPS,),
        "WAIT does not wait for what a pipeline wrote",
    ),
    Mutation(
        "a-value-stands-in-for-a-line-end",
        "crdtstream/resp/wire/parser.py",
        "len(arguments) + like_headers and",
        "len(arguments) and",
        ("tests/resp/test_parser.py::test_no_value_stands_in_for_a_line_end",),
        "a request with a line end missing is carried out, where Redis closes the connection",
    ),
    Mutation(
        "a-short-request-believes-its-lengths",
        "crdtstream/resp/wire/parser.py",
        "    return arguments if fit else None\n",
        "    return arguments\n",
        ("tests/resp/test_parser.py::test_malformed_input_ends_with_a_clear_error",),
        "a value is cut where its length says nothing of the kind",
    ),
    Mutation(
        "run-believes-the-line-ends",
        "crdtstream/resp/wire/xadd_runs.py",
        "        return _begin_with(pieces, _LINES_OF_LAST) and all(\n"
        '            map(bytes.endswith, pieces, repeat(b"\\r\\n"))\n'
        "        )\n",
        "        return _begin_with(pieces, _LINES_OF_LAST)\n",
        (BYTES,),
        "an entry is kept with fields that are no RESP, and peers refuse its batch",
    ),
    Mutation(
        "run-believes-the-lengths",
        "crdtstream/resp/wire/xadd_runs.py",
        "    return all(map(bytes.startswith, values, map(lines.__getitem__, map(len, values))))\n",
        "    return True\n",
        (BYTES,),
        "a value that holds the head of the next command is taken apart",
    ),
    Mutation(
        "xack-run-counts-an-id-twice",
        "crdtstream/commands/groups/xack_run.py",
        "counts.pop(entry_id, 0)",
        "counts[entry_id]",
        (XACKS + "test_an_id_that_is_named_twice_is_acknowledged_once",),
        "a pipeline that names an ID twice is told that it was acknowledged twice",
    ),
    Mutation(
        "xack-run-meets-a-string",
        "crdtstream/database/runs.py",
        "            and replica.stream(run.key) is not None\n",
        "",
        (XACKS + "test_what_stops_a_run",),
        "WRONGTYPE of a pipeline ends the node",
    ),
    Mutation(
        "xack-run-without-end",
        "crdtstream/resp/wire/xack_runs.py",
        "COMMANDS_MAX: Final = 512",
        "COMMANDS_MAX: Final = 1 << 12",
        (XACKS + "test_a_run_is_not_longer_than_what_others_can_wait_for",),
        "one pipeline of XACKs holds up all other clients",
    ),
    Mutation(
        "xack-run-of-several-ids",
        "crdtstream/resp/wire/xack_runs.py",
        "len(head) != _HEAD_WORDS or ",
        "",
        (XACKS + "test_what_is_a_run",),
        "XACKs that share all IDs but the last end the connection",
    ),
)
