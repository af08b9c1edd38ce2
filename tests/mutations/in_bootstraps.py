"""Planted bugs in how a region's state gets to another one."""

from typing import Final

from tests.mutations.mutation import Mutation

COPIED: Final = "tests/replication/test_bootstraps.py::"
DRIVEN: Final = "tests/region/test_bootstrapper.py::"
DRIVER: Final = "crdtstream/engine/bootstrapper.py"
SERVER: Final = "crdtstream/replication/bootstrap_server.py"
WIRE: Final = "crdtstream/replication/bootstrap_wire.py"

BOOTSTRAPS: Final = (
    Mutation(
        "the-log-lacks-what-was-lost",
        DRIVER,
        "                if await self._is_lost(merged):\n"
        "                    return None\n"
        "                await self._log.note_lacks(",
        "                await self._log.note_lacks(",
        (DRIVEN + "test_a_state_is_dropped_if_its_sender_began_to_recover",),
        "H1: effects that get the dots of lost ones are cut though nobody else has them",
    ),
    Mutation(
        "part-of-a-copy-is-in-the-way",
        SERVER,
        "        if region.bootstrap.needs_staging:\n",
        "        staging = self._checkpoints.staging\n"
        "        if staging is not None and staging.staged() is not None:\n",
        (COPIED + "test_part_of_a_copy_that_nobody_goes_on_with_is_in_nobodys_way",),
        "the only region that has everything sends its state to nobody, until it is restarted",
    ),
    Mutation(
        "an-image-may-come-twice",
        WIRE,
        "        if image.number <= after:\n",
        "        if image.number < after:\n",
        (COPIED + "test_impossible_parts_of_a_copy_are_refused",),
        "a peer that repeats itself stops the node with a failed assertion",
    ),
    Mutation(
        "a-peer-is-suspect-only-while-it-recovers",
        "crdtstream/region/region.py",
        "                    self.bootstrap.held.add(region)\n",
        (
            "                    self.bootstrap.held.add(region)\n"
            "                else:\n"
            "                    self.bootstrap.held.discard(region)\n"
        ),
        (
            DRIVEN
            + "test_a_state_with_effects_that_a_recovering_peer_may_have_lost_is_dropped[False]",
        ),
        "I3: a dot stands for two effects",
    ),
)
