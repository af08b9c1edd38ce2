"""Members as a node reports them."""

from pathlib import Path

from crdtstream.admin.members import members_reply
from crdtstream.core.ids import REGION_MAX
from crdtstream.engine.engine import Engine
from crdtstream.settings import NodeSettings, Peer
from crdtstream.store.log import MemoryLog
from tests.harness.driven import make_region


def test_regions_that_the_settings_name_have_their_numbers() -> None:
    """Before the first change of members no epoch says so."""
    peers = [Peer(region=one, address=f"127.0.0.1:738{one}") for one in (2, 3)]
    settings = NodeSettings(region=1, dir=Path("data"), peers=peers)
    reply = members_reply(Engine(make_region(), MemoryLog()), settings)
    assert reply.epoch == 0
    assert [one.region for one in reply.members] == [1, 2, 3]
    assert reply.numbers_left == REGION_MAX - 3
