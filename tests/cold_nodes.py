"""Macro nodes on disk only, without a disk: what a checkpoint does to them, for tests."""

from crdtstream.core.checkpoint.parts import Kind
from crdtstream.core.lanes.limits import NodeLimits
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.lanes.packing import pack


def save(limits: NodeLimits) -> dict[int, bytes]:
    """Take a checkpoint of what changed; tell the packed bodies of its macro nodes by image."""
    cut = limits.changes.cut()
    images: dict[int, bytes] = {}
    saved: list[tuple[MacroNode, int]] = []
    while (taken := cut.take()) is not None:
        part, image = taken
        if image.kind is Kind.NODE:
            assert isinstance(part, MacroNode)
            images[image.number] = pack(image.body)
            saved.append((part, image.number))
    cut.finish()
    for node, number in saved:
        limits.residency.note_saved(node, number)
    return images


def freeze(limits: NodeLimits) -> dict[int, bytes]:
    """Have all macro nodes on disk only; tell their packed bodies by image.

    Who has earlier ones keeps them: a node that has not changed since is not written again.
    """
    images = save(limits)
    limits.residency.drop_all()
    return images
