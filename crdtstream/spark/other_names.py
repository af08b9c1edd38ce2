"""Options of other streaming sources, each with the one that does it here.

Somebody who brings a query from Kafka's source or from spark-redis is told the option to use, and
not the whole list.  None of these names is taken in place of ours: an option has one name, and few
of them mean exactly the same.

Sources: Spark's "Structured Streaming + Kafka Integration Guide"; spark-redis' ``streaming.md``.
"""

from collections.abc import Iterable
from typing import Final

_NODES: Final = "name the gRPC addresses of the regions in 'nodes'"
_START: Final = (
    "use 'startingTime'; it bounds the times in IDs, so an entry with an earlier one is left out"
    " whenever it arrives"
)
_END: Final = "use 'endingTime', which bounds the times in IDs"
_LARGE_BATCHES: Final = (
    "leave it out; for fewer and larger batches use a trigger, as"
    " .trigger(processingTime='1 minute')"
)
_NO_GROUP: Final = (
    "leave it out: a query takes part in no consumer group, and its checkpoint keeps its position"
)
_LOGIN: Final = "use 'user' and 'passwordFile'"
_PARTITIONS: Final = "use 'minPartitions'"

# By name in lower case.
SAID: Final = {
    "kafka.bootstrap.servers": _NODES,
    "host": _NODES,
    "port": _NODES,
    "startingtimestamp": _START,
    "startingoffsetsbytimestamp": _START,
    "startingoffsetsbytimestampstrategy": _START,
    "endingtimestamp": _END,
    "endingoffsetsbytimestamp": _END,
    "stream.offsets": "use 'startingOffsets' or 'startingId'",
    "maxoffsetspertrigger": "use 'maxEntriesPerTrigger', which means the same",
    "stream.read.batch.size": "use 'maxEntriesPerTrigger', which bounds a micro-batch",
    "minoffsetspertrigger": _LARGE_BATCHES,
    "maxtriggerdelay": _LARGE_BATCHES,
    "stream.read.block": _LARGE_BATCHES,
    "groupidprefix": _NO_GROUP,
    "kafka.group.id": _NO_GROUP,
    "stream.group.name": _NO_GROUP,
    "stream.consumer.prefix": _NO_GROUP,
    "stream.parallelism": _PARTITIONS,
    "maxrecordsperpartition": _PARTITIONS,
    "includeheaders": "leave it out: the column 'fields' has all fields of an entry",
    "auth": _LOGIN,
    "dbnum": "leave it out: a region has one database",
    "ssl": "use 'tls', or name 'tlsCaCertFile'",
}
_STREAMS: Final = frozenset({"subscribe", "topic", "topics", "stream.keys"})
_PATTERNS: Final = "subscribepattern"
_ASSIGNED: Final = "assign"
_KAFKAS: Final = "kafka."
_ALL_KAFKAS: Final = (
    "leave out settings of Kafka clients; 'user' and 'passwordFile' log in, 'tlsCertFile',"
    " 'tlsKeyFile' and 'tlsCaCertFile' are for TLS"
)


def advice_on(name: str, known: Iterable[str]) -> str | None:
    """Advice for an option of another source; None for a name that is not known.

    Args:
        known: the options that there are.
    """
    lowered = name.lower()
    streams = "streams" if "streams" in known else "stream"
    if lowered in _STREAMS:
        return f"name it in {streams!r}"
    if lowered == _PATTERNS:
        return f"{streams!r} takes patterns as KEYS does, such as orders:*"
    if lowered == _ASSIGNED:
        return f"name streams in {streams!r}, and regions whose entries are wanted in 'regions'"
    return SAID.get(lowered, _ALL_KAFKAS if lowered.startswith(_KAFKAS) else None)
