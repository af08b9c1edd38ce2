"""A folder on this machine or in a cluster's file system, with the few steps a commit is made of.

    create    a new small file, whole or not at all; refused if the name is taken
    replace   one file put in the place of another, or where none was, in one step

On this machine both are steps of the kernel, and what they publish is on the disk before: neither
kill -9 nor a power cut shows a half of either.  Elsewhere they are steps of Hadoop's file system.
HDFS does the same.  An object store creates each object in one step, but cannot remove the old name
in the same step; that is why every move here may be done twice.

Paths are relative to the folder, with ``/`` between their parts.
"""

import fcntl
import hashlib
import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# In the path of what it reads, wherever they come from.
_SPARKS_WILDCARDS: Final = frozenset("*?[]{}\\")


class ArchiveError(Exception):
    """The archive cannot be written, or read, as it is.  The text says what to do."""


class FolderError(ArchiveError):
    """The folder cannot be used.  The text says why."""


class TakenError(FolderError):
    """A name that was to be new is there already."""


@dataclass(frozen=True, slots=True)
class FileSize:
    """A file below the folder, and its bytes."""

    path: str
    file_bytes: int


@dataclass(frozen=True, slots=True)
class Footer:
    """Footer of a Parquet file, which stands at its end.

    Attributes:
        rows: how many it has.
        first_ms, last_ms: least and greatest value of its column ``ms``; None where the footer has
            none, or where a row has no such value.
    """

    rows: int
    first_ms: int | None = None
    last_ms: int | None = None


class Folder(Protocol):
    """Operations on an archive's folder, besides reading and writing Parquet."""

    def url(self, path: str = "") -> str:
        """As Spark takes it."""
        ...

    def names(self, path: str) -> list[str]:
        """Names directly in ``path``, ascending; none if it does not exist."""
        ...

    def files(self, path: str) -> list[FileSize]:
        """All files anywhere below ``path``, ascending; none if it does not exist."""
        ...

    def exists(self, path: str) -> bool: ...

    def read(self, path: str) -> bytes:
        """
        Raises:
            FileNotFoundError: it is not there.
        """
        ...

    def digest(self, path: str) -> tuple[int, str]:
        """Size of a file in bytes, and its SHA-256 in hexadecimal; the whole file is read.

        Raises:
            FileNotFoundError: it does not exist.
            FolderError: it cannot be read.
        """
        ...

    def parquet_footer(self, path: str) -> Footer:
        """
        Raises:
            FolderError: it is not there, or its end is not that of a Parquet file.
        """
        ...

    def create(self, path: str, content: bytes) -> None:
        """
        Raises:
            TakenError: there is a file of this name; it is as it was.
        """
        ...

    def replace(self, source: str, target: str) -> None:
        """Give the file ``source`` the name ``target``; a file that had it is gone."""
        ...

    def delete(self, path: str) -> None:
        """Remove a file, or a folder with all that is in it; nothing happens if there is none."""
        ...

    def sync(self, path: str) -> None:
        """Return when all files below ``path`` are on the disk, as far as that can be asked for."""
        ...

    def claimed(self) -> Any:
        """A context in which no other program that asks the same has the folder.

        Raises:
            TakenError: another one has it.
        """
        ...


def folder_at(spark: "SparkSession", path: str) -> Folder:
    """The folder that Spark means by ``path``, which need not be there yet.

    Raises:
        FolderError: Spark knows no such file system, or it does not answer.
    """
    if not path.strip():
        raise FolderError("the folder has no name")
    if set(path) & _SPARKS_WILDCARDS:
        raise FolderError(f"{path}: Spark takes *?[]{{}}\\ for wildcards: choose another name")
    jvm = _jvm(spark)
    try:
        hadoop_path = jvm.org.apache.hadoop.fs.Path(path)
        system = hadoop_path.getFileSystem(spark._jsc.hadoopConfiguration())
        qualified = system.makeQualified(hadoop_path)
    except Exception as error:
        raise FolderError(f"{path}: {_reason(error)}") from error
    if qualified.toUri().getScheme() == "file":
        return LocalFolder(Path(qualified.toUri().getPath()))
    return HadoopFolder(spark, qualified.toString())


class LocalFolder:
    """A folder that this machine's kernel has."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def url(self, path: str = "") -> str:
        return str(self.root / path)

    def names(self, path: str) -> list[str]:
        try:
            return sorted(entry.name for entry in os.scandir(self.root / path))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def files(self, path: str) -> list[FileSize]:
        found = []
        for at, _, names in os.walk(self.root / path):
            for name in names:
                file = Path(at, name)
                try:
                    found.append(
                        FileSize(file.relative_to(self.root).as_posix(), file.stat().st_size)
                    )
                except FileNotFoundError:
                    continue
        return sorted(found, key=lambda file: file.path)

    def exists(self, path: str) -> bool:
        return (self.root / path).exists()

    def read(self, path: str) -> bytes:
        return (self.root / path).read_bytes()

    def digest(self, path: str) -> tuple[int, str]:
        try:
            with (self.root / path).open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
                return file.tell(), found
        except (FileNotFoundError, NotADirectoryError):
            raise FileNotFoundError(self.url(path)) from None
        except OSError as error:
            raise FolderError(f"{self.url(path)}: {error}") from error

    def parquet_footer(self, path: str) -> Footer:
        try:
            metadata = pq.read_metadata(self.root / path)
        except (OSError, pa.ArrowException) as error:
            raise FolderError(f"{self.url(path)}: {error}") from error
        groups = [metadata.row_group(index) for index in range(metadata.num_row_groups)]
        columns = [group.column(index) for group in groups for index in range(group.num_columns)]
        statistics = [one.statistics for one in columns if one.path_in_schema == "ms"]
        if len(statistics) < len(groups) or not all(map(_is_whole, statistics)):
            return Footer(metadata.num_rows)
        return Footer(
            metadata.num_rows,
            min((int(one.min) for one in statistics), default=None),
            max((int(one.max) for one in statistics), default=None),
        )

    def create(self, path: str, content: bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        draft = target.with_name(f".{uuid.uuid4().hex}")
        try:
            with draft.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            # A link is refused where the name is taken; a rename would take it away.
            os.link(draft, target)
        except FileExistsError:
            raise TakenError(f"{target} is there already") from None
        finally:
            draft.unlink(missing_ok=True)
        _sync_one(target.parent)

    def replace(self, source: str, target: str) -> None:
        to = self.root / target
        made = [parent for parent in to.parents if not parent.exists()]
        to.parent.mkdir(parents=True, exist_ok=True)
        os.replace(self.root / source, to)
        for folder in (to.parent, *(parent.parent for parent in made)):
            _sync_one(folder)

    def delete(self, path: str) -> None:
        target = self.root / path
        if target.is_dir():
            shutil.rmtree(target, ignore_errors=True)
        else:
            target.unlink(missing_ok=True)

    def sync(self, path: str) -> None:
        for at, _, names in os.walk(self.root / path):
            for name in names:
                _sync_one(Path(at, name))
            _sync_one(Path(at))
        _sync_one((self.root / path).parent)

    @contextmanager
    def claimed(self) -> Iterator[None]:
        path = self.root / "_archive" / "lock"
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise TakenError(
                    f"another program writes to the archive {self.root}: wait for it, or stop it"
                ) from None
            yield


class HadoopFolder:
    """A folder that Hadoop's file systems reach: HDFS, an object store."""

    def __init__(self, spark: "SparkSession", root: str) -> None:
        self.root = root.rstrip("/")
        self._jvm = _jvm(spark)
        self._gateway: Any = spark.sparkContext._gateway
        fs = self._jvm.org.apache.hadoop.fs
        self._conf = spark._jsc.hadoopConfiguration()
        self._system = fs.Path(root).getFileSystem(self._conf)
        self._context = fs.FileContext.getFileContext(fs.Path(root).toUri(), self._conf)

    def url(self, path: str = "") -> str:
        return f"{self.root}/{path}" if path else self.root

    def names(self, path: str) -> list[str]:
        if not self.exists(path):
            return []
        return sorted(
            str(status.getPath().getName()) for status in self._system.listStatus(self._path(path))
        )

    def files(self, path: str) -> list[FileSize]:
        if not self.exists(path):
            return []
        found = []
        listing = self._system.listFiles(self._path(path), True)
        base = len(self._path("").toUri().getPath()) + 1
        while listing.hasNext():
            status = listing.next()
            relative = str(status.getPath().toUri().getPath())[base:]
            found.append(FileSize(relative, int(status.getLen())))
        return sorted(found, key=lambda file: file.path)

    def exists(self, path: str) -> bool:
        return bool(self._system.exists(self._path(path)))

    def read(self, path: str) -> bytes:
        if not self.exists(path):
            raise FileNotFoundError(self.url(path))
        stream = self._system.open(self._path(path))
        try:
            return bytes(self._jvm.org.apache.hadoop.io.IOUtils.readFullyToByteArray(stream))
        finally:
            stream.close()

    def digest(self, path: str) -> tuple[int, str]:
        codec = self._jvm.org.apache.commons.codec.digest.DigestUtils
        try:
            file_bytes = int(self._system.getFileStatus(self._path(path)).getLen())
            stream = self._system.open(self._path(path))
            try:
                return file_bytes, str(codec.sha256Hex(stream))
            finally:
                stream.close()
        except Py4JJavaError as error:
            if "FileNotFoundException" in str(error.java_exception.getClass().getName()):
                raise FileNotFoundError(self.url(path)) from None
            raise FolderError(f"{self.url(path)}: {_reason(error)}") from error

    def parquet_footer(self, path: str) -> Footer:
        hadoop = self._jvm.org.apache.parquet.hadoop
        try:
            file = hadoop.util.HadoopInputFile.fromPath(self._path(path), self._conf)
            reader = hadoop.ParquetFileReader.open(file)
        except Py4JJavaError as error:
            raise FolderError(f"{self.url(path)}: {_reason(error)}") from error
        try:
            rows = int(reader.getRecordCount())
            spans = [
                (int(one.genericGetMin()), int(one.genericGetMax()), int(one.getNumNulls()))
                for block in reader.getFooter().getBlocks()
                for column in block.getColumns()
                if column.getPath().toDotString() == "ms"
                for one in [column.getStatistics()]
                if one.hasNonNullValue()
            ]
            is_whole = len(spans) == len(reader.getFooter().getBlocks())
        finally:
            reader.close()
        if not spans or not is_whole or any(nulls for *_, nulls in spans):
            return Footer(rows)
        return Footer(rows, min(low for low, *_ in spans), max(high for _, high, _ in spans))

    def create(self, path: str, content: bytes) -> None:
        target = self._path(path)
        draft = self._jvm.org.apache.hadoop.fs.Path(target.getParent(), f".{uuid.uuid4().hex}")
        stream = self._system.create(draft, True)
        try:
            stream.write(bytearray(content))
        finally:
            stream.close()
        try:
            self._rename(draft, target, "NONE")
        except Exception as error:
            self._system.delete(draft, False)
            if "FileAlreadyExists" in str(error):
                raise TakenError(f"{self.url(path)} is there already") from None
            raise

    def replace(self, source: str, target: str) -> None:
        to = self._path(target)
        self._system.mkdirs(to.getParent())
        self._rename(self._path(source), to, "OVERWRITE")

    def delete(self, path: str) -> None:
        self._system.delete(self._path(path), True)

    def sync(self, path: str) -> None:
        """Nothing: a file that was closed there is as safe as that system makes it."""

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """No lock that would outlive its program: a second one is noticed when it commits."""
        yield

    def _path(self, path: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(self.url(path))

    def _rename(self, source: Any, target: Any, option: str) -> None:
        rename = self._jvm.org.apache.hadoop.fs.Options.Rename
        options = self._gateway.new_array(rename, 1)
        options[0] = getattr(rename, option)
        self._context.rename(source, target, options)


def _is_whole(statistics: Any) -> bool:
    """True if a column's statistics bound all of its rows."""
    return statistics is not None and statistics.has_min_max and statistics.null_count == 0


def _sync_one(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _jvm(spark: "SparkSession") -> Any:
    jvm: Any = spark.sparkContext._jvm
    assert jvm is not None
    return jvm


def _reason(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    return str(java.getMessage() if java is not None else error)
