"""The output of a dump: every kind, every byte, and what is damaged."""

import base64
import json
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from crdtstream.cli.start import program
from crdtstream.core.effects import LocalChange, RareEffect, Record
from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import RegionId
from crdtstream.store.folder_lock import LOG_FILE
from crdtstream.store.log import Logged
from crdtstream.store.rows import record_crc
from crdtstream.upkeep.shown import effects_of, shown_bytes, shown_value
from tests.core import every_kind
from tests.upkeep.folders import change, golden


def dumped(folder: Path, *options: str, status: int = 0) -> list[Any]:
    result = CliRunner().invoke(program(), ["dump", str(folder), *options])
    assert result.exit_code == status, result.output
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_every_record_is_shown_once_and_in_order(tmp_path: Path) -> None:
    folder, *records = dumped(golden(tmp_path))
    assert folder["kind"] == "folder"
    assert folder["meta"]["region"] == "1"
    assert [record["seq"] for record in records] == list(range(1, 48))
    dots = [
        (record["origin"], effect["n"])
        for record in records
        for effect in record.get("effects", [])
    ]
    assert sorted(dots) == [*((1, n) for n in range(1, 200)), *((2, n) for n in range(1, 12))]


def test_every_kind_has_its_fields_by_name() -> None:
    for one in (*every_kind.EFFECTS, *every_kind.CHANGES):
        shown = json.loads(json.dumps(shown_value(one)))
        assert list(shown) == list(type(one).__dataclass_fields__)
    kinds = {type(one) for one in (*every_kind.EFFECTS, *every_kind.CHANGES)}
    assert kinds == {*get_args(RareEffect), *get_args(LocalChange)}


def test_ids_lanes_and_bytes_are_readable() -> None:
    remove, *_ = every_kind.EFFECTS
    last = f"{(1 << 64) - 1}-{(1 << 64) - 1}"
    assert shown_value(remove) == {
        "key": "x",
        "ids": {"1": ["1-0", "1-1"], "1023": [last]},
        "with_references": False,
        "trims": False,
    }
    appends = [effect for _, effect in effects_of(every_kind.batch_of_appends())]
    shown = shown_value(appends[1])
    assert shown == {"key": "x", "id": "10-0", "fields": [["f", "v"]], "idempotent": None}
    assert shown_value(appends[2])["idempotent"] == {"producer": "p", "id": "a"}
    assert shown_bytes(b"\xff\x00") == {"base64": "/wA="}


@given(data=st.binary())
def test_no_byte_is_lost(data: bytes) -> None:
    shown = json.loads(json.dumps(shown_bytes(data)))
    told = base64.b64decode(shown["base64"]) if isinstance(shown, dict) else shown.encode()
    assert told == data


@given(fields=st.lists(st.tuples(st.binary(), st.binary()), min_size=1, max_size=5))
def test_fields_are_shown_as_they_were_appended(fields: list[tuple[bytes, bytes]]) -> None:
    from crdtstream.core.effects import Append

    flat = [one for pair in fields for one in pair]
    shown = shown_value(Append(b"k", every_kind.entry(1), encode_fields(flat)))
    assert shown["fields"] == [[shown_bytes(name), shown_bytes(value)] for name, value in fields]


def test_a_part_can_be_asked_for(tmp_path: Path) -> None:
    folder = golden(tmp_path)
    _, *records = dumped(folder, "--first", "40")
    assert [record["seq"] for record in records] == list(range(40, 48))
    _, *records = dumped(folder, "--key", "bulk")
    told = [
        one
        for record in records
        for one in (*record.get("effects", []), *record.get("changes", []))
    ]
    assert told
    assert {one["key"] for one in told} == {"bulk"}


def test_damaged_rows_are_shown_and_the_dump_goes_on(tmp_path: Path) -> None:
    folder = golden(tmp_path)
    change(folder, "UPDATE log SET batch = zeroblob(3) WHERE seq = 2")
    change(folder, "DELETE FROM log WHERE seq IN (5, 6)")
    record = Record(RegionId(1), 1, 1, b"\xff", None)
    crc = record_crc(Logged(8, record))
    change(
        folder,
        "UPDATE log SET origin = 1, first_n = 1, last_n = 1, batch = ?, local = NULL, crc = ? "
        "WHERE seq = 8",
        b"\xff",
        crc,
    )
    _, *lines = dumped(folder, status=1)
    damaged = [line for line in lines if line["kind"] == "damaged"]
    assert [(line["seq"], line.get("rows")) for line in damaged] == [(2, None), (5, 2), (8, None)]
    assert damaged[2]["batch"] == "/w=="
    assert len(lines) == 46


def test_pages_that_cannot_be_read_cost_only_their_rows(tmp_path: Path) -> None:
    """A page of the table is zeros: SQLite refuses it, and what lies on others is shown."""
    folder = golden(tmp_path)
    log = folder / LOG_FILE
    data = log.read_bytes()
    found = []
    for page in range(1, len(data) // 4096):
        log.write_bytes(data[: page * 4096] + bytes(4096) + data[(page + 1) * 4096 :])
        result = CliRunner().invoke(program(), ["dump", str(folder)])
        lines = [json.loads(line) for line in result.stdout.splitlines()]
        rows = sum(line["kind"] == "record" for line in lines)
        assert result.exit_code == 0 or "error: " in result.output
        found.append(rows)
    # One of the pages holds rows and is not the root of the table.
    assert any(0 < rows < 47 for rows in found)


@pytest.mark.parametrize("name", ["none", "empty"])
def test_unusable_folders_are_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    assert dumped(tmp_path / name, status=2) == []
