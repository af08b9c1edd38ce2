"""Generates crdtstream/v1/ from proto/, or checks that what is checked in is current.

Usage: python tools/proto.py [--check]

Exit status: 0 generated, or all current; 1 something is stale (--check) or protoc found an error.
"""

import re
import sys
import tempfile
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "proto"
PACKAGE = Path("crdtstream/v1")
SUFFIXES = ("_pb2.py", "_pb2.pyi", "_pb2_grpc.py")
SERVICE = re.compile(r"^service\s", re.MULTILINE)
# Calls without a channel, as gRPC tries them out: the end of each file, and nobody's.
EXPERIMENTAL = re.compile(r"\n\n # This class is part of an EXPERIMENTAL API\..*", re.DOTALL)


def generate(target: Path) -> bool:
    """Writes all generated files below ``target``; False if protoc refused a source."""
    sources = sorted(SOURCES.glob(f"{PACKAGE}/*.proto"))
    well_known = Path(grpc_tools.__file__).parent / "_proto"
    arguments = ["protoc", f"-I{SOURCES}", f"-I{well_known}"]
    arguments += [f"--python_out={target}", f"--pyi_out={target}", f"--grpc_python_out={target}"]
    arguments += [str(source) for source in sources]
    if protoc.main(arguments) != 0:
        return False

    for source in sources:
        stubs = target / PACKAGE / f"{source.stem}_pb2_grpc.py"
        if SERVICE.search(source.read_text()):
            stubs.write_text(EXPERIMENTAL.sub("", stubs.read_text()))
        else:
            # Without a service it is an empty module that only pulls grpc in.
            stubs.unlink()
    return True


def generated(root: Path) -> dict[str, bytes]:
    """The generated files below ``root`` and their content, by name."""
    files = (path for path in sorted((root / PACKAGE).iterdir()) if path.name.endswith(SUFFIXES))
    return {path.name: path.read_bytes() for path in files}


def main(check_only: bool) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        if not generate(Path(scratch)):
            return 1
        fresh, present = generated(Path(scratch)), generated(ROOT)
        stale = sorted(
            name for name in fresh.keys() | present.keys() if fresh.get(name) != present.get(name)
        )
        if check_only:
            for name in stale:
                print(f"{PACKAGE / name} is not current: run `make proto`", file=sys.stderr)
            return 1 if stale else 0
        for name in stale:
            path = ROOT / PACKAGE / name
            if name in fresh:
                path.write_bytes(fresh[name])
            else:
                path.unlink()
            print(f"{path.relative_to(ROOT)}: {'written' if name in fresh else 'removed'}")
    return 0


if __name__ == "__main__":
    sys.exit(main(check_only="--check" in sys.argv[1:]))
