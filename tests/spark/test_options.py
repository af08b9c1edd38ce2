"""Options: all problems at once, misspelt names, bounds of IDs and times."""

import re
from pathlib import Path

import pytest

from crdtstream.spark.options import (
    ID_MAX,
    ID_MIN,
    SINK_OPTIONS,
    SOURCE_OPTIONS,
    EntryId,
    OptionsError,
    ParseMode,
    Security,
    SinkOptions,
    SourceOptions,
    ValueFormat,
)
from crdtstream.spark.other_names import SAID, advice_on
from crdtstream.spark.vectors import U64_MAX

NODES = {"nodes": "a:7381, b:7382"}


def source(**options: str) -> SourceOptions:
    return SourceOptions.parse(NODES | options)


def problem_of(**options: str) -> str:
    with pytest.raises(OptionsError) as error:
        source(**options)
    return str(error.value)


def test_default_options_select_everything() -> None:
    options = source()
    assert options.nodes.addresses == ("a:7381", "b:7382")
    assert options.nodes.security == Security()
    assert options.nodes.failover_seconds == 60.0
    assert (options.start, options.end) == (ID_MIN, ID_MAX)
    assert (options.streams, options.regions) == ((), ())
    assert (options.value_format, options.mode) == (ValueFormat.STRING, ParseMode.PERMISSIVE)
    assert (options.starting_offsets, options.ending_offsets) == ("earliest", "latest")
    assert options.fail_on_data_loss
    assert options.entries_per_trigger_max == 0


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"password": "secret", "failoverSeconds": "2.5"},
        {"user": "me", "password": "secret", "tlsCaCertFile": "ca.pem"},
        {"tls": "true", "tlsCertFile": "cert.pem", "tlsKeyFile": "key.pem"},
    ],
)
def test_nodes_say_by_which_options_they_were_named(options: dict[str, str]) -> None:
    nodes = source(**options).nodes
    again = {name: value for name, value in nodes.given().items() if value}
    assert SourceOptions.parse(again).nodes == nodes


def test_names_are_known_in_any_case() -> None:
    lowered = {name.lower(): value for name, value in NODES.items()} | {"startingid": "5"}
    assert SourceOptions.parse(lowered) == SourceOptions.parse(NODES | {"STARTINGID": "5"})


@pytest.mark.parametrize("name", SOURCE_OPTIONS)
def test_a_misspelt_name_is_refused_with_the_nearest_one(name: str) -> None:
    misspelt = name + "z"
    assert f"did you mean {name!r}?" in problem_of(**{misspelt: "1"})


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("kafka.bootstrap.servers", "in 'nodes'"),
        ("kafka.security.protocol", "'tlsCertFile'"),
        ("kafka.group.id", "no consumer group"),
        ("subscribe", "in 'streams'"),
        ("subscribePattern", "patterns as KEYS"),
        ("assign", "'regions'"),
        ("startingTimestamp", "'startingTime'"),
        ("startingOffsetsByTimestamp", "'startingTime'"),
        ("endingOffsetsByTimestamp", "'endingTime'"),
        ("maxOffsetsPerTrigger", "'maxEntriesPerTrigger'"),
        ("minOffsetsPerTrigger", "processingTime"),
        ("groupIdPrefix", "no consumer group"),
        ("includeHeaders", "'fields'"),
        ("stream.keys", "in 'streams'"),
        ("stream.read.batch.size", "'maxEntriesPerTrigger'"),
    ],
)
def test_an_option_of_another_source_is_refused_with_the_one_that_does_it_here(
    name: str, told: str
) -> None:
    problem = problem_of(**{name: "x"})
    assert f"unknown option {name!r}: " in problem
    assert told in problem


def test_advice_names_only_options_that_there_are() -> None:
    """Words between quotes are options, columns, or settings of Spark's trigger."""
    known = {*SOURCE_OPTIONS, *SINK_OPTIONS, "fields", "1 minute"}
    for name in ("subscribe", "subscribePattern", "assign", "kafka.acks", *SAID):
        for options in (SOURCE_OPTIONS, SINK_OPTIONS):
            advice = advice_on(name, options)
            assert advice is not None
            assert set(re.findall(r"'([^']*)'", advice)) <= known, advice


def test_a_sink_is_told_its_own_option() -> None:
    with pytest.raises(OptionsError, match="unknown option 'topic': name it in 'stream'"):
        SinkOptions.parse(NODES | {"topic": "orders"})


def test_a_name_like_no_other_is_refused_with_all() -> None:
    told = problem_of(quux="1")
    assert "unknown option 'quux'" in told
    assert "failOnDataLoss" in told


def test_a_path_is_refused_with_what_to_use() -> None:
    assert "name streams with the option 'streams'" in problem_of(path="orders")


def test_all_problems_are_told_at_once() -> None:
    told = problem_of(regions="0", minPartitions="many", mode="strict", endingtime="later")
    for name in ("regions", "minPartitions", "mode", "endingTime"):
        assert name in told


def test_a_password_is_never_shown() -> None:
    options = source(user="eve", password="s3cret")
    assert options.nodes.security.password == "s3cret"
    assert "s3cret" not in repr(options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"nodes": ""}, "no address"),
        ({"nodes": "localhost"}, "is not host:port"),
        ({"nodes": "a:0"}, "no such port"),
        ({"nodes": "a:65536"}, "no such port"),
        ({"user": "eve"}, "user without password"),
        ({"tlsCertFile": "c.pem"}, "belong together"),
        ({"password": "x", "passwordFile": "p"}, "use only one of them"),
        ({"passwordFile": "/no/such/file"}, "/no/such/file cannot be read: No such file"),
        ({"tls": "false", "tlsCaCertFile": "ca.pem"}, "tls=false"),
        ({"tls": "maybe"}, "true or false"),
        ({"failoverSeconds": "-1"}, "not a number of seconds"),
        ({"streams": " , "}, "no stream is named"),
        ({"regions": "1,two"}, "not a whole number"),
        ({"regions": "1024"}, "between 1 and 1023"),
        ({"minPartitions": "0"}, "between 1"),
        ({"maxEntriesPerTrigger": "0"}, "between 1"),
        ({"valueFormat": "json"}, "string, binary"),
        ({"mode": "LAX"}, "PERMISSIVE, FAILFAST, DROPMALFORMED"),
        ({"startingId": "5-6-7"}, "not an ID"),
        ({"startingId": str(2**64)}, "below 2^64"),
        ({"endingId": "-5"}, "not an ID"),
        ({"startingTime": "yesterday"}, "neither a time"),
        ({"startingTime": "1969-12-31"}, "before 1970"),
        ({"startingOffsets": "newest"}, "earliest, latest or a vector"),
        ({"startingOffsets": '{"0": 1}'}, "no region"),
        ({"startingOffsets": '{"1": -1}'}, "no number of effects"),
        ({"startingOffsets": '{"1": true}'}, "no number of effects"),
        ({"startingOffsets": "[1]"}, "not a JSON object"),
        ({"endingOffsets": "earliest"}, "latest or a vector"),
        ({"failOnDataLoss": "1"}, "true or false"),
    ],
)
def test_impossible_requests_are_refused(options: dict[str, str], told: str) -> None:
    assert told in problem_of(**options)


def test_nodes_must_be_named() -> None:
    with pytest.raises(OptionsError, match="nodes is missing"):
        SourceOptions.parse({})


@pytest.mark.parametrize(
    ("text", "streams"),
    [
        ("orders", (b"orders",)),
        ("orders, pay*", (b"orders", b"pay*")),
        (r"a\,b,c", (rb"a\,b", b"c")),
        (r"[ab]\*", (rb"[ab]\*",)),
        ("größe", ("größe".encode(),)),
    ],
)
def test_streams_are_names_or_patterns_between_commas(
    text: str, streams: tuple[bytes, ...]
) -> None:
    assert source(streams=text).streams == streams


@pytest.mark.parametrize(
    ("options", "start", "end"),
    [
        ({"startingId": "5"}, EntryId(5, 0), ID_MAX),
        ({"startingId": "5-3", "endingId": "7"}, EntryId(5, 3), EntryId(7, U64_MAX)),
        ({"startingId": "-", "endingId": "+"}, ID_MIN, ID_MAX),
        ({"startingTime": "1000"}, EntryId(1000, 0), ID_MAX),
        ({"startingTime": "1970-01-01T00:00:01Z"}, EntryId(1000, 0), ID_MAX),
        ({"startingTime": "1970-01-01T02:00:01+02:00"}, EntryId(1000, 0), ID_MAX),
        ({"startingTime": "1970-01-01 00:00:01"}, EntryId(1000, 0), ID_MAX),
        # A millisecond that begins before the moment is not after it.
        ({"startingTime": "1970-01-01T00:00:00.000001"}, EntryId(1, 0), ID_MAX),
        ({"endingTime": "1970-01-01T00:00:01.000999"}, ID_MIN, EntryId(1000, U64_MAX)),
        # Both bounds hold.
        ({"startingId": "5-1", "startingTime": "4"}, EntryId(5, 1), ID_MAX),
        ({"endingId": "5-1", "endingTime": "4"}, ID_MIN, EntryId(4, U64_MAX)),
    ],
)
def test_bounds_are_of_ids_and_of_times(
    options: dict[str, str], start: EntryId, end: EntryId
) -> None:
    parsed = source(**options)
    assert (parsed.start, parsed.end) == (start, end)


def test_offsets_are_vectors() -> None:
    parsed = source(startingOffsets='{"2": 17, "1": 4711}', endingOffsets='{"1": 5000}')
    assert parsed.starting_offsets == {1: 4711, 2: 17}
    assert parsed.ending_offsets == {1: 5000}


def test_tls_is_meant_where_its_files_are_named() -> None:
    assert not source().nodes.security.tls
    assert source(tlsCaCertFile="ca.pem").nodes.security.tls
    assert source(tls="true").nodes.security.tls


def test_the_password_is_read_from_its_file_and_shown_nowhere(tmp_path: Path) -> None:
    path = tmp_path / "password"
    path.write_text("open sesame\nanything\n")
    parsed = source(user="etl", passwordFile=str(path))
    assert (parsed.nodes.security.user, parsed.nodes.security.password) == ("etl", "open sesame")
    assert "sesame" not in repr(parsed)
    again = {name: value for name, value in parsed.nodes.given().items() if value}
    assert SourceOptions.parse(again).nodes == parsed.nodes


def test_the_user_is_default_where_only_a_password_is_given() -> None:
    assert source(password="x").nodes.security.user == "default"


def test_spark_hands_its_own_options_to_a_sink() -> None:
    given = NODES | {"checkpointLocation": "/tmp/c", "queryName": "q", "stream": "orders"}
    assert SinkOptions.parse(given).stream == b"orders"


def test_vectors_say_of_which_database_they_are() -> None:
    one, other = "5f0c" * 8, "77aa" * 8
    vector = f'{{"1": 5, "database": "{one}"}}'
    parsed = SourceOptions.parse({"nodes": "a:1", "startingOffsets": vector})
    assert (parsed.nodes.database_uid, parsed.starting_offsets) == (one, {1: 5})
    assert SourceOptions.parse({"nodes": "a:1"}).nodes.database_uid == ""
    with pytest.raises(OptionsError, match=f"two databases: startingOffsets of {one}.*{other}"):
        SourceOptions.parse(
            {
                "nodes": "a:1",
                "startingOffsets": vector,
                "endingOffsets": vector.replace(one, other),
            }
        )
    with pytest.raises(OptionsError, match="'5F0C' is no identity of a database"):
        SourceOptions.parse({"nodes": "a:1", "endingOffsets": '{"database": "5F0C"}'})
