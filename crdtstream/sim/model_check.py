"""I1: a region shows what the model makes of the effects that it applied."""

from crdtstream.core.ids import RegionId
from crdtstream.sim.facts import shown, wrong_retries
from crdtstream.sim.model import Issued, members_told, model, skipped
from crdtstream.sim.records import Records
from crdtstream.sim.simulated_node import SimNode
from crdtstream.sim.violation import ViolationError


class ModelCheck:
    """Check of one world; equal effects are modelled once."""

    def __init__(self, records: Records) -> None:
        self._records = records
        # Results of the model for a key, by the dots of the effects on it that were applied; and
        # the losses that the records had then.
        self._modelled: dict[tuple[bytes, tuple[tuple[RegionId, int], ...]], dict[str, object]] = {}
        self._losses = 0

    def judge(self, node: SimNode) -> None:
        """Compare all that the region shows: streams, strings, groups, retries, members."""
        replica = node.region.replica
        applied: dict[bytes, list[Issued]] = {}
        for (origin, n), one in self._records.issued.items():
            if one.key is not None and n <= replica.vv.get(origin, 0):
                applied.setdefault(one.key, []).append(one)
        for key, mine in sorted(applied.items()):
            expected, found = self._expected(key, mine), shown(replica, key)
            if found != expected:
                raise ViolationError(
                    f"I1: region {node.number} shows {key!r} as\n{found}\nthe model says\n"
                    f"{expected}"
                )
            for wrong in wrong_retries(replica, mine, key):
                raise ViolationError(f"rule 20: in region {node.number} {wrong}")
        told = members_told(
            one
            for (origin, n), one in self._records.issued.items()
            if n <= replica.vv.get(origin, 0)
        )
        # No effect reports epoch 1, which the files name.
        history = [(step.hash, step.dot) for step in replica.members.history[1:]]
        if history != told:
            raise ViolationError(
                f"I20: region {node.number} has {replica.members.listed()}, told by\n{history}\n"
                f"the model says\n{told}"
            )

    def _expected(self, key: bytes, applied: list[Issued]) -> dict[str, object]:
        """Result of the model, which is asked once about the same effects."""
        about = key, tuple((one.origin, one.n) for one in applied)
        if self._losses != self._records.losses:
            # A dot may have come to stand for another effect.
            self._losses = self._records.losses
            self._modelled.clear()
        expected = self._modelled.get(about)
        if expected is None:
            expected = self._modelled[about] = model(applied, key)
            for entry in skipped(applied, key):
                raise ViolationError(f"I9: of {key!r} {entry}")
        return expected
