"""A node outlives its log."""

import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from crdtstream.node.log_lines import LineLogger


def test_lines_come_whole_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    logger = LineLogger(descriptor)
    logger.info("one")
    logger.error("zwei ä \ud800")
    os.close(descriptor)
    assert path.read_text() == "one\nzwei ä \\ud800\n"


def test_a_line_that_cannot_be_written_is_dropped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "log"
    full = os.open("/dev/full", os.O_WRONLY)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    file = os.dup(descriptor)
    logger = LineLogger(descriptor)
    os.dup2(full, descriptor)
    logger.error("lost")
    logger.error("lost too")
    os.dup2(file, descriptor)
    logger.info("back")
    logger.info("as ever")
    for each in (full, descriptor, file):
        os.close(each)
    assert path.read_text() == ("(log lines that could not be written: 2)\nback\nas ever\n")


def test_a_line_that_was_cut_off_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "log"
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    logger = LineLogger(descriptor)
    was = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, was[1]))
        logger.info("more than ten bytes")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, was)
        signal.signal(signal.SIGXFSZ, handler)
    logger.info("back")
    os.close(descriptor)
    assert path.read_text() == ("more than \n(log lines that could not be written: 1)\nback\n")


@pytest.mark.parametrize("form", ["console", "json"])
def test_a_traceback_has_no_values_of_variables(form: str) -> None:
    """They are of clients, and may be passwords."""
    program = f"""
import structlog
from crdtstream.cli.node import _configure_log
_configure_log("info", {form!r})
def log_in(password):
    raise ValueError("a slip")
try:
    log_in("planted" + "-password")
except ValueError:
    structlog.get_logger().exception("a bug")
"""
    told = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    ).stderr
    assert "ValueError: a slip" in told
    assert "in log_in" in told
    assert "planted-password" not in told
