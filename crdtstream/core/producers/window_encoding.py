"""The WINDOW part of a key: what is known of its producers."""

from crdtstream.core.checkpoint.contents import (
    BatchContent,
    CollapsedContent,
    IdempotentContent,
    NumberedContent,
    ProducersContent,
    RunContent,
    TrackedContent,
    WindowContent,
    id_content,
    packed,
)
from crdtstream.core.producers.idempotency import IdempotencyRecords, Window
from crdtstream.core.producers.numbered import Batch, NumberedRecords, Producer


def encode_producers(
    key: bytes,
    *,
    window: Window | None,
    idempotency: IdempotencyRecords,
    numbered: NumberedRecords,
) -> bytes:
    """Encode what is known of a key's producers."""
    return packed(
        ProducersContent(
            window=None if window is None else _window(window),
            records=[
                IdempotentContent(dot, name.producer, name.id, id_content(entry_id))
                for dot, name, entry_id in idempotency.of(key)
            ],
            collapsed=[
                CollapsedContent(
                    id_content(entry_id),
                    row.dot,
                    row.idempotent.producer,
                    row.idempotent.id,
                    row.stays,
                    id_content(row.stays_id),
                )
                for entry_id, row in idempotency.collapsed_of(key)
            ],
            numbered=[_numbered(name, producer) for name, producer in numbered.of(key)],
            deleted=dict(idempotency.deleted_of(key)),
        )
    )


def _window(window: Window) -> WindowContent:
    return WindowContent(
        added=window.added,
        duplicates=window.duplicates,
        producers=[
            (
                producer,
                [
                    TrackedContent(name, id_content(one.entry_id), one.dot, one.arrived, one.hits)
                    for name, one in ids
                ],
            )
            for producer, ids in window.items()
        ],
    )


def _numbered(name: bytes, producer: Producer) -> NumberedContent:
    return NumberedContent(
        producer=name,
        newest=producer.newest,
        batches=[_batch(number, batch) for number, batch in producer.batches.items()],
    )


def _batch(number: int, batch: Batch) -> BatchContent:
    return BatchContent(
        number=number,
        known=list(batch.known),
        runs=[
            RunContent(run.start, run.stop, run.first, run.known, run.is_stable)
            for run in batch.all_runs()
        ],
    )
