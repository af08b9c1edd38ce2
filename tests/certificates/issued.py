"""Files as ``crdtstream certs`` writes them, for tests that speak TLS with them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from typer.testing import CliRunner

from crdtstream.cli.start import program


@dataclass(frozen=True)
class Files:
    """A holder's three files."""

    folder: Path

    @property
    def certificate(self) -> bytes:
        return (self.folder / "cert.pem").read_bytes()

    @property
    def key(self) -> bytes:
        return (self.folder / "key.pem").read_bytes()

    @property
    def ca(self) -> bytes:
        return (self.folder / "ca.pem").read_bytes()


def run(*words: str | Path) -> str:
    """The output of a command that succeeds."""
    result = CliRunner().invoke(program(["certs"]), ["certs", *map(str, words)])
    assert result.exit_code == 0, result.output
    return result.stdout


def new_ca(folder: Path, *options: str) -> Path:
    run("init", folder, *options)
    return folder


def issued(ca: Path, role: str, name: str, *options: str | Path) -> Files:
    run("issue", ca, role, name, *options)
    return Files(ca / f"{role}-{name}")


def regions(ca: Path, numbers: Sequence[int]) -> list[Files]:
    return [issued(ca, "region", str(number), "--host", "localhost") for number in numbers]
