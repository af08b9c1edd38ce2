"""Every surface, shortly: inputs that found bugs, valid ones, and damaged ones, always the same."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from crdtstream import compiled
from tests.conftest import ROOT, require
from tests.fuzz.surface import FOUND, SURFACES, surface_of

# Damaged inputs of each: half a second or so.  What a target takes differs by a hundred.
COUNTS = {
    "aclfiles": 400,
    "batches": 1500,
    "bombs": 1500,
    "calls": 25,
    "certificates": 60,
    "checkpoints": 150,
    "commands": 40,
    "copies": 40,
    "dumps": 60,
    "letters": 120,
    "links": 40,
    "manifests": 200,
    "pullers": 40,
    "records": 250,
    "requests": 400,
    "settings": 60,
    "texts": 3000,
    "tls_records": 60,
}
LONG_SECONDS = 60
SOAK_SECONDS = int(os.environ.get("CRDTSTREAM_FUZZ_SECONDS", "3600"))
# Surfaces whose code is compiled, and whose results do not depend on the time or on chance.
OF_COMPILED = ("requests", "batches", "links", "pullers", "copies", "records", "dumps", "texts")
RESULTS = """
import sys
from crdtstream import compiled
from tests.fuzz.surface import surface_of
print(compiled.how())
surface = surface_of(sys.argv[1])
for data in (*surface.seeds(), *surface.damaged(int(sys.argv[2]), seed=1)):
    print(surface.target(data))
"""


def test_every_surface_is_run() -> None:
    assert COUNTS.keys() == SURFACES.keys()
    assert {path.name for path in FOUND.iterdir()} <= SURFACES.keys()


@pytest.mark.parametrize("name", SURFACES)
def test_nothing_but_clear_refusals(name: str) -> None:
    """An input that fails is written down: `python -m tests.fuzz again SURFACE INPUT`."""
    surface = surface_of(name)
    for found, data in surface.found():
        _take(name, data, f"found/{name}/{found}")
    for number, data in enumerate(surface.seeds()):
        _take(name, data, f"seed {number}")
    for number, data in enumerate(surface.damaged(COUNTS[name])):
        _take(name, data, f"damaged input {number}")


def _take(name: str, data: bytes, which: str) -> None:
    try:
        surface_of(name).target(data)
    except BaseException as error:
        error.add_note(f"{name}, {which}: {data.hex()}")
        raise


def test_the_same_inputs_come_each_time() -> None:
    for name in SURFACES:
        surface = surface_of(name)
        assert list(surface.damaged(5)) == list(surface.damaged(5)), name


def test_a_peers_effects_are_applied_if_nothing_is_damaged() -> None:
    """Else damage would be looked for where nothing is read."""
    pullers, links, copies = map(surface_of, ("pullers", "links", "copies"))
    for data in pullers.seeds():
        assert "(2, 2" in str(pullers.target(data))
    for at in (0, 2):
        assert "(1, 4)" in str(links.target(links.seeds()[at]))
    for data in copies.seeds()[1:4]:
        assert "(2, 28)" in str(copies.target(data))
    dumps = surface_of("dumps")
    assert all(isinstance(dumps.target(data), bytes) for data in dumps.seeds())


@pytest.mark.skipif(
    os.environ.get(compiled.PURE) != "0",
    reason="it is about what is compiled: make test-compiled",
)
@pytest.mark.parametrize("name", OF_COMPILED)
def test_compiled_code_makes_of_any_input_what_the_sources_make_of_it(name: str) -> None:
    require(compiled.build_of_now().is_dir(), "the sources are not compiled: make fast")
    pure, fast = (
        subprocess.run(
            [sys.executable, "-c", RESULTS, name, str(COUNTS[name])],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), compiled.PURE: each},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        for each in "10"
    )
    assert (pure[0], fast[0]) == ("pure", "compiled")
    assert len(pure) > COUNTS[name]
    assert fast[1:] == pure[1:]


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", SURFACES)
def test_nothing_but_clear_refusals_for_long(name: str, tmp_path: Path) -> None:
    """An hour each; CRDTSTREAM_FUZZ_SECONDS says how long."""
    fuzz(name, SOAK_SECONDS, tmp_path)


@pytest.mark.pure
@pytest.mark.long
@pytest.mark.drawn
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", SURFACES)
def test_nothing_but_clear_refusals_for_a_minute(name: str, tmp_path: Path) -> None:
    """New inputs in each run, unlike those above."""
    fuzz(name, LONG_SECONDS, tmp_path)


def fuzz(name: str, seconds: int, corpus: Path) -> None:
    """Fuzz by atheris, which damages what its coverage suggests."""
    pytest.importorskip("atheris", reason="atheris has no wheel for this machine")
    command = [sys.executable, "-m", "tests.fuzz", "run", name]
    command += ["--seconds", str(seconds), "--corpus", str(corpus)]
    ended = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, compiled.PURE: "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    assert ended.returncode == 0, ended.stdout[-5_000:]
    assert "Done" in ended.stdout, ended.stdout[-5_000:]
