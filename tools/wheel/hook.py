"""Puts compiled modules into a wheel, beside their sources; see crdtstream/compiled.py."""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class CompiledModules(BuildHookInterface):  # type: ignore[misc]
    """For wheels; an editable install stays as it is, and so does all with CRDTSTREAM_PURE=1."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if version == "editable" or os.environ.get("CRDTSTREAM_PURE") == "1":
            return
        self._work = TemporaryDirectory(prefix="crdtstream-wheel-")
        made = Path(self._work.name) / "made"
        # On stderr, as on stdout there is what frontends read.
        builder = Path(self.root, "tools", "fast.py")
        done = subprocess.run(
            [sys.executable, str(builder), "--into", str(made)], stdout=sys.stderr, check=False
        )
        if done.returncode:
            sys.exit("no compiled wheel; CRDTSTREAM_PURE=1 makes one of the sources alone")
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
        for path in made.rglob("*"):
            if path.is_file():
                build_data["force_include"][str(path)] = str(path.relative_to(made))

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if build_data["infer_tag"]:
            self._work.cleanup()
