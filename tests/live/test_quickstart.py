"""docs/quickstart-two-machines.md: its own commands, in its own shell, print what it says."""

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import takewhile
from pathlib import Path
from queue import Empty, Queue
from threading import Thread
from typing import Final, NamedTuple

import pytest

from tests.conftest import ROOT, VENV, program, require
from tests.patience import seconds

pytestmark = [pytest.mark.live, pytest.mark.long]

PAGE: Final = ROOT / "docs" / "quickstart-two-machines.md"
_BLOCK: Final = re.compile(r"^```(console|toml)\n(.*?)^```", re.DOTALL | re.MULTILINE)
_FILE_NAME: Final = re.compile(r"# (\S+)\n")
_DONE: Final = "quickstart-step-done"


class Command(NamedTuple):
    """A command of the page, and what it prints."""

    text: str
    printed: list[str]


class SettingsFile(NamedTuple):
    """A file that the page has its reader write."""

    name: str
    text: str


def steps() -> Iterator[Command | SettingsFile]:
    for kind, text in _BLOCK.findall(PAGE.read_text()):
        if kind == "toml":
            name = _FILE_NAME.match(text)
            assert name, text
            yield SettingsFile(name[1], text)
            continue
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, *printed = part.splitlines()
            yield Command(command, printed)


def plain(line: str) -> str:
    """A line without numbers of this run, and as wide as its words."""
    line = re.sub(r"\d+-\d+-\d+ [\d:]+|\d{4,}|\b\d+\.\d\d(?= s$)", "N", line)
    # Of a link, lag and traffic.
    line = re.sub(r"^( \d → \d +up) .*", r"\1", line)
    return " ".join(line.replace("─", "").split())


class Shell:
    """The shell of the page's first command, and what it prints."""

    def __init__(self, command: str, folder: Path) -> None:
        environment = os.environ | {
            "PATH": f"{VENV / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            # redis-cli prints as in a terminal.
            "FAKETTY": "1",
        }
        self._process = subprocess.Popen(
            command.split(),
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._lines: Queue[str | None] = Queue()
        self._reader = Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def run(self, command: str) -> list[str]:
        """Lines that it prints."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\necho; echo {_DONE}\n")
        self._process.stdin.flush()
        printed: list[str] = []
        while True:
            try:
                line = self._lines.get(timeout=seconds())
            except Empty:
                raise AssertionError(f"{command}: does not end; {printed}") from None
            assert line is not None, f"{command}: the shell has ended; {printed}"
            if line == _DONE:
                return printed
            printed.append(line)

    def end(self) -> None:
        """End it, and with it every process that it has started."""
        assert self._process.stdin is not None
        self._process.kill()
        self._process.wait()
        self._reader.join()
        self._process.stdin.close()


@contextmanager
def shell_of(command: str, folder: Path) -> Iterator[Shell]:
    shell = Shell(command, folder)
    try:
        yield shell
    finally:
        shell.end()


def shell_that_is_permitted(command: str, machines: list[str]) -> str | None:
    """The page's first command, or as root, in which these commands can make the machines."""
    script = " && ".join([*machines, "ip netns exec a true"])
    for permitted in (command, command.replace("--user --map-root-user ", "")):
        done = subprocess.run(
            [*permitted.split(), "-c", script],
            capture_output=True,
            timeout=seconds(),
            check=False,
        )
        if done.returncode == 0:
            return permitted
    return None


def test_the_commands_of_the_page_lead_from_nothing_to_two_regions(tmp_path: Path) -> None:
    for name in ("curl", "ip", "redis-cli", "unshare"):
        program(name)
    first, *rest = steps()
    assert isinstance(first, Command)
    commands = (step.text for step in rest if isinstance(step, Command))
    machines = list(takewhile(lambda text: not text.startswith("crdtstream "), commands))
    assert len(machines) > 5
    opened = shell_that_is_permitted(first.text, machines)
    require(opened is not None, "network namespaces are not permitted here: run as root")
    assert opened is not None
    with shell_of(opened, tmp_path) as shell:
        for step in rest:
            match step:
                case SettingsFile(name, text):
                    (tmp_path / name).write_text(text)
                case Command(command, expected):
                    shown = shell.run(command)
                    found = [plain(line) for line in shown]
                    missing = [line for line in map(plain, expected) if line not in found]
                    assert not missing, f"{command}\n{shown}\n{logs(tmp_path)}"


def logs(folder: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(folder.glob("*.log")))


def test_the_page_has_commands_and_files() -> None:
    found = list(steps())
    assert sum(isinstance(step, Command) for step in found) > 25
    assert [step.name for step in found if isinstance(step, SettingsFile)] == [
        "region-1.toml",
        "region-2.toml",
    ]
