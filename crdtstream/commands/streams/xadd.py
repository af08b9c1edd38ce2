"""XADD: an entry for the lane of this region, under an ID that the mode allows."""

from dataclasses import dataclass
from typing import Final

from crdtstream.commands.arguments import BAD_ID
from crdtstream.commands.lookup import refuse_string
from crdtstream.commands.reply import CommandError, Reply
from crdtstream.commands.streams.idempotent_xadd import IdempotencyOption, take_option
from crdtstream.commands.streams.trimming import Trimming, TrimmingParser, look_ahead, trim
from crdtstream.core.fields import encode_fields
from crdtstream.core.ids import (
    ID_MAX,
    ID_MIN,
    U64_MAX,
    IdExhaustedError,
    IdMode,
    Millis,
    RegionId,
    StreamId,
    format_id,
    id_ms,
    id_seq,
    make_id,
    next_id,
    parse_u64,
    region_seq,
)
from crdtstream.core.replica import Replica
from crdtstream.core.size import Scope, Size

# An entry is never divided: it is part of one batch, one record of the log, one message to a peer.
ENTRY_BYTES_MAX: Final = Size(512 << 20, least=1, scope=Scope.CLIENTS)
_EXHAUSTED = "ERR The stream has exhausted the last possible ID, unable to add more items"
_TOO_SMALL = "ERR The ID specified in XADD is equal or smaller than the target stream top item"
_ZERO = "ERR The ID specified in XADD must be greater than 0-0"
_STRICT = (
    "ERR XADD with a full ID (ms-seq) is not allowed in strict mode: use '*' or 'ms', "
    "or tune crdt_xadd_id_uniqueness_mode to semi-strict or liberal"
)


@dataclass(frozen=True, slots=True)
class IdRequest:
    """The ID argument: ``*`` (ms None), ``ms-*`` and ``ms`` (seq None), or ``ms-seq``."""

    ms: int | None
    seq: int | None
    is_partial: bool = False  # plain `ms`


AUTO: Final = IdRequest(None, None)


@dataclass(slots=True)
class _Options:
    """Options between the key and the fields."""

    request: IdRequest
    fields_at: int
    trimming: Trimming | None = None
    make_stream: bool = True
    idempotency: IdempotencyOption | None = None


_PLAIN = _Options(AUTO, 3)


def xadd(replica: Replica, now: Millis, argv: list[bytes]) -> Reply:
    """XADD key [NOMKSTREAM] [KEEPREF|DELREF|ACKED] [IDMP producer id | IDMPAUTO producer]
    [MAXLEN|MINID [=|~] threshold [LIMIT n]] id field value …

    Returns:
        The entry's ID; null with NOMKSTREAM if the key does not exist.  If an idempotent append is
        recognised, the first entry's ID: nothing is added, and nothing trimmed.

    Raises:
        CommandError: an argument is wrong, the mode forbids the ID, or it is not above the
            stream's last-generated ID.  Nothing has changed then.

    Source: redis.io/commands/xadd; AA, "ID generation modes".
    """
    options = _PLAIN if argv[2] == b"*" else _parse(replica, argv)
    fields_at = options.fields_at
    argc = len(argv) - fields_at
    if argc < 2 or argc & 1:
        raise CommandError("ERR wrong number of arguments for 'xadd' command")

    key = argv[1]
    request = options.request
    if request is not AUTO:
        _refuse_by_mode(request, replica.id_mode)
    stream = replica.stream(key)
    if stream is None:
        refuse_string(replica, key)
        if not options.make_stream:
            return None
    fields = argv[fields_at:]
    name = None
    if options.idempotency is not None:
        name = options.idempotency.named(fields)
        known = None if stream is None else replica.recognise(key, name)
        if known is not None:
            return format_id(known)
    last = max(replica.floor_of(key), ID_MIN if stream is None else stream.last_id)
    entry_id = choose_id(request, replica.region, replica.id_mode, now=now, last=last)
    encoded = encode_fields(fields)
    if len(encoded) > ENTRY_BYTES_MAX.value:
        raise CommandError(
            f"ERR an entry may have {ENTRY_BYTES_MAX.value >> 20} MiB, with all its fields and "
            "values"
        )
    if options.trimming is not None:
        look_ahead(replica, key, options.trimming)
    replica.append(key, entry_id, encoded, name)
    if options.trimming is not None:
        trim(replica, key, options.trimming)
    return b"%d-%d" % (id_ms(entry_id), id_seq(entry_id))


def _parse(replica: Replica, argv: list[bytes]) -> _Options:
    parser = TrimmingParser()
    make_stream = True
    idempotency: IdempotencyOption | None = None
    at = 2
    while at < len(argv):
        if argv[at] == b"*":
            break
        if taken := parser.take(argv, at):
            at += taken
        elif argv[at].lower() == b"nomkstream":
            make_stream = False
            at += 1
        elif (option := take_option(argv, at)) is not None:
            if idempotency is not None:
                raise CommandError("ERR IDMP/IDMPAUTO specified multiple times")
            idempotency, taken = option
            at += taken
        else:
            break
    if at == len(argv):
        raise CommandError("ERR wrong number of arguments for 'xadd' command")
    request = parse_request(argv[at])
    if idempotency is not None and request is not AUTO:
        raise CommandError("ERR IDMP/IDMPAUTO can be used only with auto-generated IDs")
    trimming = parser.finish_if_any(replica.node_limits.entries_max)
    return _Options(request, at + 1, trimming, make_stream, idempotency)


def parse_request(text: bytes) -> IdRequest:
    """XADD's ID argument.

    Raises:
        CommandError: it is none.
    """
    if text == b"*":
        return AUTO
    ms_text, dash, seq_text = text.partition(b"-")
    ms = parse_u64(ms_text)
    if ms is None:
        raise CommandError(BAD_ID)
    if not dash:
        return IdRequest(ms, None, is_partial=True)
    if seq_text == b"*":
        return IdRequest(ms, None)
    seq = parse_u64(seq_text)
    if seq is None:
        raise CommandError(BAD_ID)
    return IdRequest(ms, seq)


def _refuse_by_mode(request: IdRequest, mode: IdMode) -> None:
    if request.seq is not None and mode is IdMode.STRICT:
        raise CommandError(_STRICT)
    is_zero = request.ms == 0 and (
        request.seq == 0 or (request.is_partial and mode is IdMode.LIBERAL)
    )
    if is_zero:
        raise CommandError(_ZERO)


def choose_id(
    request: IdRequest, region: RegionId, mode: IdMode, *, now: Millis, last: StreamId
) -> StreamId:
    """The new entry's ID (architecture, "IDs"): always above ``last``, the last-generated ID.

    Raises:
        CommandError: no such ID, or no greater ID at all.
    """
    if last == ID_MAX:
        raise CommandError(_EXHAUSTED)
    if request.ms is None:
        try:
            return next_id(region, now=now, last=last)
        except IdExhaustedError as error:
            raise CommandError(_EXHAUSTED) from error
    if request.seq is not None:
        entry_id = make_id(request.ms, request.seq)
    elif mode is IdMode.LIBERAL and request.is_partial:
        entry_id = make_id(request.ms, 0)
    else:
        above = id_seq(last) + 1 if request.ms == id_ms(last) else 0
        if mode is IdMode.LIBERAL:
            # As in Redis: the next one; 0-* in an empty stream is 0-1.
            seq = max(above, 1) if request.ms == 0 else above
        else:
            seq = region_seq(region, above=above)
        if seq > U64_MAX:
            raise CommandError(_TOO_SMALL)
        entry_id = make_id(request.ms, seq)
    if entry_id <= last:
        raise CommandError(_TOO_SMALL)
    return entry_id
