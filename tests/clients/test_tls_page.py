"""Snippets of docs/tls.md: those of Python and Node.js run, the others stand in tests that run."""

import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.clients.secured import Secured
from tests.clients.test_node_clients import PACKAGES
from tests.conftest import ROOT, program, require
from tests.patience import seconds

PAGE = (ROOT / "docs" / "tls.md").read_text()
CLIENTS = ROOT / "tests" / "clients"


def snippets(section: str, language: str) -> list[str]:
    [text] = re.findall(rf"^### {section}\n(.*?)^##", PAGE, re.MULTILINE | re.DOTALL)
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def run(secured: Secured, *words: str | Path, **environ: str) -> str:
    """Output of a snippet, in the folder that the page begins with."""
    done = subprocess.run(
        words,
        cwd=secured.files.folder.parent,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        timeout=seconds(),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_snippet_for_redis_py_runs(secured: Secured) -> None:
    [snippet] = snippets("redis-py", "python")
    told = run(secured, sys.executable, "-c", snippet.replace("6391", str(secured.port)))
    [(entry_id, _)] = secured.node.client.xrange("messages")
    assert told == f"app [({entry_id!r}, {{b'text': b'hello'}})]\n"


@pytest.mark.parametrize("library", ["node-redis", "ioredis"])
def test_the_snippets_for_node_run(secured: Secured, library: str) -> None:
    node = program("node", hint="apt-get install nodejs npm, then `make tools`")
    require(PACKAGES.is_dir(), "Node.js clients are missing: run `make tools` (wants npm)")
    [snippet] = snippets(library, "js")
    snippet = snippet.replace("6391", str(secured.port))
    told = run(secured, node, "-e", snippet, NODE_PATH=str(PACKAGES))
    [(entry_id, _)] = secured.node.client.xrange("messages")
    assert told == f"{entry_id.decode()}\n"


@pytest.mark.parametrize(
    ("library", "language", "source"),
    [("go-redis", "go", "go/tls_test.go"), ("Jedis", "java", "java/JedisTests.java")],
)
def test_the_function_of_the_page_is_the_one_that_is_tested(
    library: str, language: str, source: str
) -> None:
    function = snippets(library, language)[0]
    tested = (CLIENTS / source).read_text()
    assert function in tested or textwrap.indent(function, "  ") in tested
