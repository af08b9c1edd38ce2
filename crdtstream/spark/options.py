"""Options of the source and the sink (``.option(...)``), each with its bounds.

Spark passes options as text, with names in any case.  All errors in them are reported at once,
before any node is asked.  An unknown name is refused with the nearest one that exists, as a
misspelt ``endingtime`` would else silently read everything.
"""

import difflib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias, TypeVar

from crdtstream.secrets.secret_files import SecretError, read_secret
from crdtstream.spark.other_names import advice_on
from crdtstream.spark.vectors import U64_MAX, Vector, VectorError, parse_database, parse_vector

_T = TypeVar("_T")

REGION_MAX: Final = 1023
FAILOVER_SECONDS_DEFAULT: Final = 60.0
# A node takes no more in one call.
APPEND_ROWS_MAX: Final = 4_096
WRITE_ID_BYTES_MAX: Final = 1_000

COMMON_OPTIONS: Final = (
    "nodes",
    "user",
    "password",
    "passwordFile",
    "tls",
    "tlsCertFile",
    "tlsKeyFile",
    "tlsCaCertFile",
    "failoverSeconds",
)
SOURCE_OPTIONS: Final = (
    *COMMON_OPTIONS,
    "streams",
    "startingId",
    "endingId",
    "startingTime",
    "endingTime",
    "regions",
    "minPartitions",
    "valueFormat",
    "mode",
    "startingOffsets",
    "endingOffsets",
    "maxEntriesPerTrigger",
    "failOnDataLoss",
)
SINK_OPTIONS: Final = (*COMMON_OPTIONS, "stream", "writeId", "rowOrder", "rowsPerAppend")
# Spark's own, which it hands on to the sink.
_SPARKS_OWN: Final = frozenset({"checkpointlocation", "queryname"})


class OptionsError(ValueError):
    """Options that cannot be meant; the text names every problem."""


class ValueFormat(Enum):
    """As what fields and values of entries are shown."""

    STRING = "string"
    BINARY = "binary"


class ParseMode(Enum):
    """Treatment of a value that its column cannot hold; named as in Spark's own sources."""

    PERMISSIVE = "PERMISSIVE"
    FAILFAST = "FAILFAST"
    DROPMALFORMED = "DROPMALFORMED"


class RowOrder(Enum):
    """In which order the sink numbers and appends a task's rows: as given, or by their bytes.

    The same rows in another order, as a task behind a shuffle may have them when it is run again,
    get the same numbers only if they are sorted.
    """

    GIVEN = "given"
    SORTED = "sorted"


class EntryId(NamedTuple):
    """An entry's ID: milliseconds and sequence number."""

    ms: int
    seq: int

    def __str__(self) -> str:
        return f"{self.ms}-{self.seq}"


ID_MIN: Final = EntryId(0, 0)
ID_MAX: Final = EntryId(U64_MAX, U64_MAX)

# The place where a query begins or ends: a version vector, or all entries, or none of them.
StartingOffsets: TypeAlias = Literal["earliest", "latest"] | Vector
EndingOffsets: TypeAlias = Literal["latest"] | Vector


@dataclass(frozen=True, slots=True)
class Security:
    """Credentials and TLS settings for reaching a node.

    Attributes:
        user: for ``authorization: Basic``; empty without a password.
        password: empty: none is sent.
        tls: over TLS; so also if a file is named and ``tls`` is not given.
        tls_ca_cert_file: PEM of the authorities for a node's certificate; empty: those of the
            system.
        tls_cert_file: PEM of the certificate that this side shows; empty: none.
        tls_key_file: PEM of its key.
    """

    user: str = ""
    password: str = field(default="", repr=False)
    tls_ca_cert_file: str = ""
    tls_cert_file: str = ""
    tls_key_file: str = ""
    tls: bool = False


@dataclass(frozen=True, slots=True)
class NodesOptions:
    """Nodes, and how to reach them.

    Attributes:
        failover_seconds: how long to look for one that answers.
        database_uid: identity of the database that they must be of; empty: any database.
    """

    addresses: tuple[str, ...]
    security: Security
    failover_seconds: float
    database_uid: str = ""

    def given(self) -> dict[str, str]:
        """Options of the data source that name these nodes, whatever their database is."""
        security = self.security
        return {
            "nodes": ",".join(self.addresses),
            "user": security.user,
            "password": security.password,
            "tls": "true" if security.tls else "false",
            "tlsCaCertFile": security.tls_ca_cert_file,
            "tlsCertFile": security.tls_cert_file,
            "tlsKeyFile": security.tls_key_file,
            "failoverSeconds": f"{self.failover_seconds:f}",
        }


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """Options of a read.

    Attributes:
        nodes: where.
        streams: names or patterns as KEYS takes them; none: every stream.
        start, end: of IDs, both included; from the options by ID and the options by time.
        regions: of these origins only; none: of all.
        min_partitions: the least number of tasks, if there is enough to read; 0: as many as fit.
        value_format: see the class.
        mode: see the class.
        starting_offsets: dots at or below are not read.
        ending_offsets: dots above are not read.
        entries_per_trigger_max: of a micro-batch; 0: no limit.
        fail_on_data_loss: a query ends when entries were trimmed before it read them.
        given: the names that were given, in lower case.
    """

    nodes: NodesOptions
    streams: tuple[bytes, ...]
    start: EntryId
    end: EntryId
    regions: tuple[int, ...]
    min_partitions: int
    value_format: ValueFormat
    mode: ParseMode
    starting_offsets: StartingOffsets
    ending_offsets: EndingOffsets
    entries_per_trigger_max: int
    fail_on_data_loss: bool
    given: frozenset[str]

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "SourceOptions":
        """
        Raises:
            OptionsError: with all that is wrong.
        """
        given = _Given(options, SOURCE_OPTIONS)
        start, end = _id_bounds(given)
        parsed = cls(
            nodes=replace(_nodes(given), database_uid=_database_uid(given)),
            streams=given.take("streams", _streams, ()),
            start=start,
            end=end,
            regions=given.take("regions", _regions, ()),
            min_partitions=given.take("minPartitions", _integer(1, 1_000_000), 0),
            value_format=given.take("valueFormat", _one_of(ValueFormat), ValueFormat.STRING),
            mode=given.take("mode", _one_of(ParseMode), ParseMode.PERMISSIVE),
            starting_offsets=given.take("startingOffsets", _starting_offsets, "earliest"),
            ending_offsets=given.take("endingOffsets", _ending_offsets, "latest"),
            entries_per_trigger_max=given.take("maxEntriesPerTrigger", _integer(1, U64_MAX), 0),
            fail_on_data_loss=given.take("failOnDataLoss", _boolean, True),
            given=given.names,
        )
        given.refuse_problems()
        return parsed


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """Options of an append.

    Attributes:
        nodes: where.
        stream: of all rows; empty: the rows' column ``stream`` names it.
        write_id: the name by which a batch write is known when it is run again; empty: a new one.
        row_order: see the class.
        append_rows_max: rows of one append, at most.
    """

    nodes: NodesOptions
    stream: bytes
    write_id: str
    row_order: RowOrder
    append_rows_max: int

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "SinkOptions":
        """
        Raises:
            OptionsError: with all that is wrong.
        """
        given = _Given(options, SINK_OPTIONS, ignored=_SPARKS_OWN)
        parsed = cls(
            nodes=_nodes(given),
            stream=given.take("stream", os_bytes, b""),
            write_id=given.take("writeId", _write_id, ""),
            row_order=given.take("rowOrder", _one_of(RowOrder), RowOrder.GIVEN),
            append_rows_max=given.take("rowsPerAppend", _integer(1, APPEND_ROWS_MAX), 2_000),
        )
        given.refuse_problems()
        return parsed


def os_bytes(text: str) -> bytes:
    """Bytes of a key or pattern; lone surrogates stand for bytes that are no UTF-8."""
    return text.encode("utf-8", "surrogateescape")


class _Given:
    """The options as given, taken one by one; collects what is wrong with them."""

    def __init__(
        self,
        options: Mapping[str, str],
        known: Sequence[str],
        *,
        ignored: frozenset[str] = frozenset(),
    ) -> None:
        self._values = {name.lower(): value for name, value in options.items()}
        self._problems = [
            _unknown(name, known)
            for name in options
            if name.lower() not in ignored | {name.lower() for name in known}
        ]
        self.names = frozenset(self._values)

    def take(self, name: str, parse: Callable[[str], _T], default: _T) -> _T:
        text = self._values.get(name.lower())
        if text is None:
            return default
        try:
            return parse(text)
        except ValueError as error:
            shown = "" if name == "password" else f"={text!r}"
            self.problem(f"{name}{shown}: {error}")
            return default

    def problem(self, text: str) -> None:
        self._problems.append(text)

    def refuse_problems(self) -> None:
        if self._problems:
            raise OptionsError("crdtstream: " + "; ".join(self._problems))


def _unknown(name: str, known: Sequence[str]) -> str:
    if name.lower() == "path":
        return "a path means nothing here: name streams with the option 'streams' or 'stream'"
    if (advice := advice_on(name, known)) is not None:
        return f"unknown option {name!r}: {advice}"
    lowered = {option.lower(): option for option in known}
    near = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=0.6)
    advice = f"did you mean {lowered[near[0]]!r}?" if near else f"there are {', '.join(known)}"
    return f"unknown option {name!r}: {advice}"


def _nodes(given: _Given) -> NodesOptions:
    if "nodes" not in given.names:
        given.problem('nodes is missing: name gRPC addresses, as "host:7381,host:7382"')
    seconds = given.take("failoverSeconds", _seconds, FAILOVER_SECONDS_DEFAULT)
    return NodesOptions(given.take("nodes", _addresses, ()), _security(given), seconds)


def _security(given: _Given) -> Security:
    password = given.take("password", str, "")
    if "passwordfile" in given.names:
        if password:
            given.problem("password and passwordFile: use only one of them")
        # Read here, once, where the query begins: tasks need no such file.
        password = given.take("passwordFile", _secret, "")
    user = given.take("user", _name, "default" if password else "")
    if user and not password:
        given.problem("user without password; give passwordFile, or password")
    ca, cert, key = (
        given.take(name, _name, "") for name in ("tlsCaCertFile", "tlsCertFile", "tlsKeyFile")
    )
    if bool(cert) != bool(key):
        given.problem("tlsCertFile and tlsKeyFile belong together")
    tls = given.take("tls", _boolean, bool(ca or cert))
    if not tls and (ca or cert):
        given.problem("tls=false, yet TLS files are named")
    return Security(user, password, ca, cert, key, tls)


def _secret(path: str) -> str:
    try:
        return read_secret(Path(path))
    except SecretError as error:
        raise ValueError(str(error)) from None


def _addresses(text: str) -> tuple[str, ...]:
    addresses = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not addresses:
        raise ValueError("no address")
    for address in addresses:
        host, colon, port = address.rpartition(":")
        if not colon or not host or not port.isascii() or not port.isdigit():
            raise ValueError(f"{address!r} is not host:port")
        if not 1 <= int(port) <= 65535:
            raise ValueError(f"{address!r}: no such port")
    return addresses


def _streams(text: str) -> tuple[bytes, ...]:
    """Names or patterns between commas; a comma of a name is written ``\\,``."""
    parts = [part.strip() for part in re.findall(r"(?:\\.|[^,\\]|\\$)+", text, re.DOTALL)]
    streams = tuple(os_bytes(part) for part in parts if part)
    if not streams:
        raise ValueError("no stream is named; leave the option out to read all")
    return streams


def _regions(text: str) -> tuple[int, ...]:
    region = _integer(1, REGION_MAX)
    return tuple(sorted({region(part.strip()) for part in text.split(",")}))


def _starting_offsets(text: str) -> StartingOffsets:
    match text.strip().lower():
        case "earliest":
            return "earliest"
        case "latest":
            return "latest"
        case _:
            return _vector(text, 'earliest, latest or a vector, as {"1": 4711, "2": 17}')


def _ending_offsets(text: str) -> EndingOffsets:
    if text.strip().lower() == "latest":
        return "latest"
    return _vector(text, 'latest or a vector, as {"1": 4711, "2": 17}')


def _vector(text: str, expected: str) -> Vector:
    try:
        return parse_vector(json.loads(text))
    except json.JSONDecodeError:
        raise ValueError(f"expected {expected}") from None
    except VectorError as error:
        raise ValueError(f"{error}; expected {expected}") from None


def _database_uid(given: _Given) -> str:
    """The database that the vectors name; empty if none names one."""
    told = {
        name: uid
        for name in ("startingOffsets", "endingOffsets")
        if (uid := given.take(name, _database_of, ""))
    }
    if len(set(told.values())) > 1:
        of = ", ".join(f"{name} of {uid}" for name, uid in told.items())
        given.problem(f"vectors of two databases: {of}; give those of one")
    return next(iter(told.values()), "")


def _database_of(text: str) -> str:
    try:
        offset = json.loads(text)
    except json.JSONDecodeError:
        return ""
    return parse_database(offset) if isinstance(offset, dict) else ""


def _id_bounds(given: _Given) -> tuple[EntryId, EntryId]:
    """Bounds of IDs: those by ID and those by time together."""
    start = max(
        given.take("startingId", _first_id, ID_MIN),
        given.take("startingTime", lambda text: EntryId(first_ms(text), 0), ID_MIN),
    )
    end = min(
        given.take("endingId", _last_id, ID_MAX),
        given.take("endingTime", lambda text: EntryId(_last_ms(text), U64_MAX), ID_MAX),
    )
    return start, end


def _first_id(text: str) -> EntryId:
    return ID_MIN if text.strip() == "-" else parse_id(text, seq=0)


def _last_id(text: str) -> EntryId:
    return ID_MAX if text.strip() == "+" else parse_id(text, seq=U64_MAX)


def parse_id(text: str, *, seq: int) -> EntryId:
    """An ID; ``seq`` is that of an ID without one, as in XRANGE.

    Raises:
        ValueError: it is none.
    """
    match = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", text.strip(), re.ASCII)
    if match is None:
        raise ValueError("not an ID, as 1718000000000-0 or 1718000000000")
    entry_id = EntryId(int(match[1]), seq if match[2] is None else int(match[2]))
    if max(entry_id) > U64_MAX:
        raise ValueError("an ID's parts are below 2^64")
    return entry_id


def first_ms(text: str) -> int:
    """The first whole millisecond not before a moment."""
    return -(-_microseconds(text) // 1_000)


def _last_ms(text: str) -> int:
    """The millisecond that a moment lies in."""
    return _microseconds(text) // 1_000


def _microseconds(text: str) -> int:
    """Since 1970, of an ISO 8601 time (without a zone it is UTC) or of milliseconds."""
    text = text.strip()
    if re.fullmatch(r"[0-9]+", text, re.ASCII):
        if int(text) > U64_MAX:
            raise ValueError("milliseconds are below 2^64")
        return int(text) * 1_000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            "neither a time, as 2026-01-31T12:00:00Z, nor milliseconds since 1970"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    if since < timedelta():
        raise ValueError("before 1970")
    return since // timedelta(microseconds=1)


def _integer(low: int, high: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]+", text.strip(), re.ASCII):
            raise ValueError("not a whole number")
        if not low <= int(text) <= high:
            raise ValueError(f"must be between {low} and {high}")
        return int(text)

    return parse


def _seconds(text: str) -> float:
    if not re.fullmatch(r"[0-9]+(\.[0-9]*)?", text.strip(), re.ASCII):
        raise ValueError("not a number of seconds")
    return float(text)


def _boolean(text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
        case _:
            raise ValueError("must be true or false")


_E = TypeVar("_E", bound=Enum)


def _one_of(kind: type[_E]) -> Callable[[str], _E]:
    def parse(text: str) -> _E:
        for member in kind:
            if member.value.lower() == text.strip().lower():
                return member
        raise ValueError(f"must be one of {', '.join(str(member.value) for member in kind)}")

    return parse


def _write_id(text: str) -> str:
    if len(_name(text).encode()) > WRITE_ID_BYTES_MAX:
        raise ValueError(f"longer than {WRITE_ID_BYTES_MAX} bytes")
    return text


def _name(text: str) -> str:
    if not text.strip():
        raise ValueError("is empty")
    return text
