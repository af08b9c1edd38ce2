"""Limits of macro nodes, and what they report to: one object for all lanes of a replica."""

from collections import OrderedDict
from typing import Final

from crdtstream.core.checkpoint.parts import Changes
from crdtstream.core.lanes.macro_node import MacroNode
from crdtstream.core.lanes.residency import Residency

NODE_ENTRIES_MAX_DEFAULT: Final = 100
NODE_BYTES_MAX_DEFAULT: Final = 4096


class NodeLimits:
    """Limits of a macro node, and the objects that nodes are reported to; one for all lanes of a
    replica.

    Attributes:
        entries_max: entries per node, 0 for no limit; changed while running.
        bytes_max: bytes of fields per node, 0 for no limit; changed while running.  A single larger
            entry is a node.
        changes: which parts changed since the last cut.
        residency: which nodes are in memory.
        small: nodes that were closed, or lost entries, since ``compaction.py`` looked at them last.
    """

    __slots__ = ("bytes_max", "changes", "entries_max", "residency", "small")

    def __init__(
        self,
        *,
        entries_max: int = NODE_ENTRIES_MAX_DEFAULT,
        bytes_max: int = NODE_BYTES_MAX_DEFAULT,
        changes: Changes | None = None,
        residency: Residency | None = None,
    ) -> None:
        self.entries_max = entries_max
        self.bytes_max = bytes_max
        self.changes = changes or Changes()
        self.residency = residency or Residency()
        self.small: OrderedDict[MacroNode, None] = OrderedDict()
