"""The walk-through of the documentation runs, and prints what the page says."""

import contextlib
import io
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.conftest import ROOT
from tests.live.cluster import Cluster
from tests.spark.conftest import nodes_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCRIPT = ROOT / "docs" / "pipeline_walkthrough.py"
PAGE = ROOT / "docs" / "pipeline.md"


def cells(path: Path) -> dict[str, str]:
    """The script's cells by their titles."""
    _, *parts = re.split(r"^# %% ", path.read_text(), flags=re.MULTILINE)
    return {title: code.strip() for title, code in (part.split("\n", 1) for part in parts)}


def shown(path: Path) -> dict[str, tuple[str, str]]:
    """By heading what the walk-through shows as code, and as what that prints."""
    found = {}
    _, _, walkthrough = path.read_text().partition("\n## A walk-through\n")
    for part in re.split(r"^### ", walkthrough.partition("\n## ")[0], flags=re.MULTILINE)[1:]:
        title, _, text = part.partition("\n")
        blocks = re.findall(r"^```(python|text)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        code = "\n".join(body.strip() for kind, body in blocks if kind == "python")
        printed = "".join(body for kind, body in blocks if kind == "text")
        if code:
            found[title] = (code, printed.strip())
    return found


def test_the_page_shows_the_script() -> None:
    assert {title: code for title, (code, _) in shown(PAGE).items()} == cells(SCRIPT)


@pytest.mark.live
def test_the_script_prints_what_the_page_shows(
    spark: "SparkSession", regions: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CRDTSTREAM_NODES", nodes_of(regions))
    redis_addresses = ",".join(f"127.0.0.1:{node.resp_port}" for node in regions.nodes.values())
    monkeypatch.setenv("CRDTSTREAM_REDIS", redis_addresses)
    namespace: dict[str, object] = {"__name__": "walkthrough"}
    printed = {}
    for title, code in cells(SCRIPT).items():
        with contextlib.redirect_stdout(io.StringIO()) as output:
            exec(compile(code, f"{SCRIPT.name}: {title}", "exec"), namespace)
        printed[title] = output.getvalue().strip()
    assert printed == {title: text for title, (_, text) in shown(PAGE).items()}
