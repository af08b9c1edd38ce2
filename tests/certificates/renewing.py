"""Programs that renew certificates, as a node sees them: files that change one step after another.

Each program puts a first set into its folder, and replaces it in steps.  After a step it yields the
words by which a node that looks at this moment says why it does not use the files; empty: they are
not used yet, or are whole.
"""

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from pathlib import Path

from crdtstream.certificates.node_files import Paths
from tests.certificates.making import Made
from tests.certificates.node_folder import NodeFolder

NO_CERTIFICATE = "no certificate in PEM"
NO_KEY = "no private key in PEM"
OTHER_KEY = "key of another certificate"
NO_CHAIN = "no chain"
CUT_OFF = "it is cut off"
NO_FILE = "No such file"


class Renewing(ABC):
    """A program, and the folder that it writes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    @abstractmethod
    def paths(self) -> Paths:
        """Files that a node is given."""

    @abstractmethod
    def begin(self, leaf: Made) -> None:
        """Write the first set."""

    @abstractmethod
    def replace(self, leaf: Made) -> Iterator[str]:
        """Replace the set by another one, with its authorities."""


class Kubernetes(Renewing):
    """A Secret that is mounted as a folder, as cert-manager fills it.

    Files are links to ``..data/NAME``, and ``..data`` is a link to a folder.  A link to a new one
    replaces it by a rename, and then the former folder is removed.
    """

    @property
    def paths(self) -> Paths:
        return Paths(*(self.folder / name for name in ("tls.crt", "tls.key", "ca.crt")))

    def begin(self, leaf: Made) -> None:
        (self.folder / "..data").symlink_to(self._written(leaf))
        for path in self.paths.all:
            path.symlink_to(f"..data/{path.name}")

    def replace(self, leaf: Made) -> Iterator[str]:
        former = self.folder / os.readlink(self.folder / "..data")
        fresh = self._written(leaf)
        yield ""
        link = self.folder / "..data_tmp"
        link.symlink_to(fresh)
        yield ""
        link.rename(self.folder / "..data")
        shutil.rmtree(former)
        yield ""

    def _written(self, leaf: Made) -> str:
        """The name of a folder with new files."""
        count = len(list(self.folder.glob("..2026_*")))
        folder = (
            self.folder / f"..2026_11_28_22_10_0{count}.{leaf.certificate.serial_number % 1000}"
        )
        folder.mkdir()
        for path, content in contents(self.paths, leaf).items():
            (folder / path.name).write_bytes(content)
            (folder / path.name).chmod(0o400)
        return folder.name


class StepRenew(Renewing):
    """``step ca renew --force``: another certificate for the same key, written in place."""

    @property
    def paths(self) -> Paths:
        return NodeFolder(self.folder).paths

    def begin(self, leaf: Made) -> None:
        NodeFolder(self.folder).put_all(leaf)

    def replace(self, leaf: Made) -> Iterator[str]:
        # Its file has the authority in between as well.
        whole = leaf.pem + leaf.between
        assert leaf.between
        path = self.paths.certificate
        for cut, words in ((0, NO_CERTIFICATE), (300, NO_CERTIFICATE), (len(leaf.pem), NO_CHAIN)):
            path.write_bytes(whole[:cut])
            yield words
        path.write_bytes(whole[:-80])
        yield CUT_OFF
        path.write_bytes(whole)
        yield ""


class StepRekey(StepRenew):
    """``step ca rekey --force``: certificate and key, one behind the other, in place."""

    def replace(self, leaf: Made) -> Iterator[str]:
        for words in super().replace(leaf):
            yield words or OTHER_KEY
        for cut in (0, 40):
            self.paths.key.write_bytes(leaf.key_pem[:cut])
            yield NO_KEY
        self.paths.key.write_bytes(leaf.key_pem)
        yield ""


class SpiffeHelper(Renewing):
    """spiffe-helper: certificate, key and bundle, one behind the other, in place.

    The bundle has former authorities as well while SPIRE replaces its own.
    """

    @property
    def paths(self) -> Paths:
        names = ("svid.pem", "svid_key.pem", "svid_bundle.pem")
        return Paths(*(self.folder / name for name in names))

    def begin(self, leaf: Made) -> None:
        for path, content in contents(self.paths, leaf).items():
            self.write(path, content)

    def replace(self, leaf: Made) -> Iterator[str]:
        assert self.paths.ca is not None
        former = self.paths.ca.read_bytes()
        new = {**contents(self.paths, leaf), self.paths.ca: former + leaf.root.pem}
        after = dict(zip(new, (OTHER_KEY, NO_CHAIN, ""), strict=True))
        empty = dict(zip(new, (NO_CERTIFICATE, NO_KEY, NO_CERTIFICATE), strict=True))
        for path, content in new.items():
            yield from self.half_written(path, content, empty[path])
            self.write(path, content)
            yield after[path]

    def half_written(self, path: Path, content: bytes, empty: str) -> Iterator[str]:
        path.write_bytes(b"")
        yield empty
        if path == self.paths.ca:
            path.write_bytes(content[:-80])
            yield CUT_OFF

    def write(self, path: Path, content: bytes) -> None:
        path.touch(mode=0o600)
        path.write_bytes(content)


class SpiffeHelperByRename(SpiffeHelper):
    """The same files, each replaced by a rename."""

    def half_written(self, path: Path, content: bytes, empty: str) -> Iterator[str]:
        return iter(())

    def write(self, path: Path, content: bytes) -> None:
        NodeFolder(self.folder).put(path.name, content)


class Certbot(Renewing):
    """Numbered files in ``archive``; links in ``live``, removed and made again one by one."""

    @property
    def paths(self) -> Paths:
        names = ("fullchain.pem", "privkey.pem", "chain.pem")
        return Paths(*(self.folder / "live" / name for name in names))

    def begin(self, leaf: Made) -> None:
        for name in ("archive", "live"):
            (self.folder / name).mkdir()
        self._archive(leaf, 1)
        for path in self.paths.all:
            path.symlink_to(f"../archive/{path.stem}1.pem")

    def replace(self, leaf: Made) -> Iterator[str]:
        self._archive(leaf, 2)
        yield ""
        after = dict(zip(self.paths.all, (OTHER_KEY, NO_CHAIN, ""), strict=True))
        for path, words in after.items():
            path.unlink()
            yield NO_FILE
            path.symlink_to(f"../archive/{path.stem}2.pem")
            yield words

    def _archive(self, leaf: Made, number: int) -> None:
        for path, content in contents(self.paths, leaf).items():
            archived = self.folder / "archive" / f"{path.stem}{number}.pem"
            archived.touch(mode=0o600)
            archived.write_bytes(content)


def contents(paths: Paths, leaf: Made) -> Mapping[Path, bytes]:
    """Certificate, key and authorities, in the order in which programs write them."""
    assert paths.ca is not None
    return {
        paths.certificate: leaf.pem + leaf.between,
        paths.key: leaf.key_pem,
        paths.ca: leaf.root.pem,
    }
