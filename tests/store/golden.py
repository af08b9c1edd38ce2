"""Bytes that stay as they are: one batch or local part of a record for every kind, by a name."""

from collections import Counter
from collections.abc import Iterator

from crdtstream.core.wire.codec import encode_batch
from crdtstream.core.wire.local_codec import encode_local
from tests.core import every_kind


def encoded() -> dict[str, bytes]:
    """Encoded examples by kind, and those of one kind in their order."""
    return dict(_encoded())


def _encoded() -> Iterator[tuple[str, bytes]]:
    counts: Counter[str] = Counter()

    def name(value: object) -> str:
        kind = type(value).__name__
        counts[kind] += 1
        return f"{kind} {counts[kind]}"

    for effect in every_kind.EFFECTS:
        yield name(effect), encode_batch(every_kind.batch_of(effect))
    for change in every_kind.CHANGES:
        yield name(change), encode_local(every_kind.local_of(change))
    yield "appends", encode_batch(every_kind.batch_of_appends())
    yield "local of a batch received", encode_local(every_kind.LOCAL_OF_A_RECEIVED)
    yield "local of idempotent appends", encode_local(every_kind.LOCAL_OF_APPENDS)
