"""Files of a node as an operator, or a program that renews certificates, changes them."""

import os
from dataclasses import dataclass
from pathlib import Path

from crdtstream.certificates.node_files import Paths
from tests.certificates.making import Made


@dataclass(frozen=True)
class NodeFolder:
    """A folder with cert.pem, key.pem and ca.pem."""

    folder: Path

    @property
    def paths(self) -> Paths:
        return Paths(*(self.folder / name for name in ("cert.pem", "key.pem", "ca.pem")))

    def put(self, name: str, content: bytes) -> None:
        """Replace a file as most programs do: write another one, and rename it."""
        path = self.folder / f"{name}.new"
        path.write_bytes(content)
        path.chmod(0o600)
        os.replace(path, self.folder / name)

    def put_all(self, leaf: Made, *, ca: bytes | None = None) -> None:
        self.put("ca.pem", leaf.root.pem if ca is None else ca)
        self.put("key.pem", leaf.key_pem)
        self.put("cert.pem", leaf.pem + leaf.between)
