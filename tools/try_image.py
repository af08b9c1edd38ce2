"""Follow the Dockerfile in plain folders, and see that a node of the result answers.

Usage: sudo python tools/try_image.py BASE

BASE: a Debian root with Python, pip and venv, which takes the place of the image python:…-slim:

    debootstrap --variant=minbase \\
        --include=python3,python3-dev,python3-pip,python3-venv,ca-certificates bookworm BASE

It is for machines without a container engine, and wants root for chroot and mounts.  Each stage is
a copy of BASE in which the RUN lines run, with this machine's network.  The node then runs as the
Dockerfile's user on a root that cannot be written, and its health check must succeed.

What it does not show: the base image itself, layers, an engine's networks and limits.

Exit status: 0 the node answered; else 1, or the traceback of what went wrong.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parent.parent
DOCKERFILE: Final = ROOT / "Dockerfile"
SEARCHED: Final = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
# How the network is reached from here, and which authorities are trusted for it.
AUTHORITIES: Final = "/etc/ssl/certs/ca-certificates.crt"
OF_THIS_MACHINE: Final = ("/etc/resolv.conf", AUTHORITIES)
START_SECONDS_MAX: Final = 60.0
STOP_SECONDS_MAX: Final = 30.0
_VARIABLE: Final = re.compile(r"\$\{?([A-Z_]+)\}?")


class Instruction(NamedTuple):
    """A line of a Dockerfile, with those that continue it."""

    name: str
    words: str


def instructions(text: str) -> list[Instruction]:
    lines = [line for line in text.splitlines() if not line.lstrip().startswith("#")]
    joined = "\n".join(lines).replace("\\\n", " ")
    return [
        Instruction(name, words.strip())
        for name, _, words in (line.partition(" ") for line in joined.splitlines() if line.strip())
    ]


@dataclass(slots=True)
class Stage:
    """A root that is being made.

    Attributes:
        said: the last of each instruction that says how the result is run.
    """

    root: Path
    variables: dict[str, str]
    folder: str = "/"
    said: dict[str, str] = field(default_factory=dict)

    def set(self, words: str) -> None:
        """Set variables, whose values may have those that were set before."""
        known = {"PATH": SEARCHED, **self.variables}
        for pair in words.split():
            key, _, value = pair.partition("=")
            self.variables[key] = _VARIABLE.sub(lambda one: known[one[1]], value)

    def run(self, command: str) -> None:
        environment = {"PATH": SEARCHED, "PIP_CERT": AUTHORITIES, **self.variables}
        inside = f"cd {self.folder} && {command}"
        subprocess.run(
            ["/usr/sbin/chroot", str(self.root), "/bin/sh", "-ec", inside],
            env=environment,
            check=True,
        )

    def copy(self, words: str, stages: Mapping[str, "Stage"]) -> None:
        *options, source, target = words.split()
        origin = ROOT
        for option in options:
            origin = stages[option.removeprefix("--from=")].root
        found = origin / source.lstrip("/")
        into = self.root / self.folder.lstrip("/") if target == "." else self.root / target[1:]
        into.parent.mkdir(parents=True, exist_ok=True)
        if found.is_file():
            shutil.copy2(found, into)
        elif options:
            shutil.copytree(found, into, symlinks=True)
        else:
            copy_context(into)


def copy_context(into: Path) -> None:
    """Copy all that .dockerignore lets in: its lines that begin with "!"."""
    into.mkdir(parents=True, exist_ok=True)
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line.startswith("!"):
            source, target = ROOT / line[1:], into / line[1:]
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.sh")
                shutil.copytree(source, target, ignore=ignored)
            else:
                shutil.copy2(source, target)


def build(base: Path, work: Path) -> Stage:
    """The last stage of the Dockerfile."""
    stages: dict[str, Stage] = {}
    given: dict[str, str] = {}
    stage: Stage | None = None
    for name, words in instructions(DOCKERFILE.read_text()):
        print(f"{name} {words}", flush=True)
        match name:
            case "ARG":
                key, _, value = words.partition("=")
                (given if stage is None else stage.variables)[key] = value.strip('"')
            case "FROM":
                _, _, title = words.partition(" AS ")
                stage = Stage(work / (title or "last"), {})
                stages[title] = stage
                subprocess.run(["/bin/cp", "-a", str(base), str(stage.root)], check=True)
                for path in OF_THIS_MACHINE:
                    shutil.copy2(path, stage.root / path[1:])
                (stage.root / "usr/local/bin/python").symlink_to("/usr/bin/python3")
            case "RUN":
                assert stage is not None
                stage.run(words)
            case "COPY":
                assert stage is not None
                stage.copy(words, stages)
            case "WORKDIR":
                assert stage is not None
                stage.folder = words
                (stage.root / words[1:]).mkdir(parents=True, exist_ok=True)
            case "ENV":
                assert stage is not None
                stage.set(words)
            case _:
                assert stage is not None
                stage.said[name] = words
    assert stage is not None
    return stage


def try_node(stage: Stage, work: Path) -> None:
    """Run the node as the image says, on a root that is read only, and ask for its health."""
    data = work / "data"
    data.mkdir(mode=0o700)
    user = stage.said["USER"]
    os.chown(data, *map(int, user.split(":")))
    # A password that its user can read, as a secret is mounted.
    secret = stage.root / "etc" / "crdtstream" / "requirepass"
    secret.write_text("secret\n")
    root = stage.root
    mounts = (
        f"mount --bind {root} {root} && mount -o remount,ro,bind {root}"
        f" && mount --bind {data} {root}/data && mount -t tmpfs none {root / 'tmp'}"
        f" && mount -t proc none {root}/proc"
    )
    variables = {
        **stage.variables,
        "CRDTSTREAM_REGION": "1",
        "CRDTSTREAM_INSECURE_PEERS": "true",
        "CRDTSTREAM_REQUIREPASS_FILE": "/etc/crdtstream/requirepass",
    }
    command = [*json.loads(stage.said["ENTRYPOINT"]), *json.loads(stage.said["CMD"])]
    inside = ["/usr/sbin/chroot", f"--userspec={user}", str(root), *command]
    shell = f'{mounts} && exec "$@"'
    program = ["/usr/bin/unshare", "--mount", "sh", "-ec", shell, "sh", *inside]
    node = subprocess.Popen(program, env=variables)
    try:
        check = json.loads(stage.said["HEALTHCHECK"].partition("CMD ")[2])
        asked = ["/usr/sbin/chroot", f"--userspec={user}", str(root), *check]
        deadline = time.monotonic() + START_SECONDS_MAX
        while subprocess.run(
            asked, env=variables, stdout=subprocess.DEVNULL, check=False
        ).returncode:
            assert node.poll() is None, f"the node ended with status {node.returncode}"
            assert time.monotonic() < deadline, "the node does not become healthy"
            time.sleep(0.2)
        version = subprocess.run(
            [*asked[:3], command[0], "--version"],
            env=variables,
            capture_output=True,
            text=True,
            check=True,
        )
        size = sum(path.lstat().st_size for path in (root / "opt").rglob("*"))
        print(f"healthy: {version.stdout.strip()}; /opt has {size >> 20} MiB")
    finally:
        node.send_signal(getattr(signal, stage.said["STOPSIGNAL"]))
        status = node.wait(STOP_SECONDS_MAX)
    assert status == 0, f"the node ended with status {status}"
    assert any(data.iterdir()), "the node wrote nothing into its volume"


def main() -> int:
    if len(sys.argv) != 2:
        print(__doc__, file=sys.stderr)
        return 1
    with TemporaryDirectory(prefix="crdtstream-image-") as name:
        work = Path(name)
        try_node(build(Path(sys.argv[1]).resolve(), work), work)
    return 0


if __name__ == "__main__":
    sys.exit(main())
