"""Figures of the machine that a node runs on."""

import os
from pathlib import Path

from crdtstream.admin.machine import available_bytes, machine_status


def test_memory_is_read_where_linux_says_it(tmp_path: Path) -> None:
    figures = tmp_path / "meminfo"
    figures.write_text("MemTotal:  8 kB\nMemFree:   1 kB\nMemAvailable:    5 kB\n")
    assert available_bytes(str(figures)) == 5 << 10


def test_a_system_without_that_file_has_its_unused_memory(tmp_path: Path) -> None:
    unused = available_bytes(str(tmp_path / "missing"))
    assert 0 < unused <= machine_status().memory


def test_a_machine_has_cores_and_no_more_free_memory_than_it_has() -> None:
    found = machine_status()
    assert found.cores == os.cpu_count()
    assert 0 < found.memory_free <= found.memory
