"""XADD of one region on each Python of this machine, compiled, and on one of them pure.

The environments are those of `make test` (.venv) and of `make test-pythons` (.venv-3.12 and so on);
one in which nothing is compiled of these sources is left out.
"""

import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks.measured import in_turns
from benchmarks.parts import xadd
from benchmarks.parts.part import Found, Options, Part
from benchmarks.systems import TREE, Starter, regions, started
from crdtstream.local.regions import node_by

_VERSION: Final = "import platform; print(platform.python_version())"
_HOW: Final = "from crdtstream import compiled; print(compiled.how())"


def run(options: Options) -> Found:
    starters: dict[str, Starter] = {}
    skipped: dict[str, str] = {}
    for python in _pythons():
        version = _told(python, _VERSION)
        if _told(python, _HOW) != "compiled":
            skipped[version] = f"nothing is compiled: make fast VENV={python.parent.parent.name}"
            continue
        if not starters:
            starters[f"{version} pure"] = regions(node=node_by(python), is_pure=True)
        starters[f"{version} compiled"] = regions(node=node_by(python))
    with started(starters) as systems:
        samples = in_turns(
            options.rounds,
            [
                (
                    f"-P {pipeline}",
                    name,
                    partial(xadd.measure, system, pipeline, options.scaled(requests, least=100)),
                )
                for pipeline, requests in xadd.REQUESTS.items()
                for name, system in systems.items()
            ],
        )
    return Found(samples, skipped)


def _pythons() -> Iterator[Path]:
    for folder in [TREE / ".venv", *sorted(TREE.glob(".venv-3.*"))]:
        if (python := folder / "bin" / "python").exists():
            yield python


def _told(python: Path, code: str) -> str:
    return subprocess.run(
        [python, "-c", code], cwd=TREE, check=True, capture_output=True, text=True
    ).stdout.strip()


PART: Final = Part(
    name="pythons",
    about="XADD of a small entry by 50 clients of redis-benchmark, one region on each Python,"
    " appendfsync everysec.",
    reference="",
    run=run,
)
