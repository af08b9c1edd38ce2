"""The console is loaded at its first request: a node that nobody looks at starts without it."""

import subprocess
import sys

PROGRAM = """
import sys
import crdtstream.cli.node, crdtstream.node.node
print(sorted(name for name in sys.modules if name.startswith("crdtstream.console")))
"""


def test_a_node_does_not_load_the_console() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
