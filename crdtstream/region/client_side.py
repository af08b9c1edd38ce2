"""The side of a region that its clients see.

ClientTable   who is connected; runs commands, and answers   ┐
Fetching      entries that commands wait for                 ├─ ColdReads: they were read
WriteGate     reasons for which writes are refused           ┘
AnswerTime    time that requests wait
"""

from crdtstream.region.answering import AnswerTime
from crdtstream.region.client_table import ClientTable
from crdtstream.region.cold_reads import ColdReads
from crdtstream.region.fetching import Fetching
from crdtstream.region.ground import Ground
from crdtstream.region.write_gate import WriteGate


class ClientSide:
    """See the module's text; the attributes are as of ``Region``."""

    def __init__(self, ground: Ground) -> None:
        replica, database, tick = ground.replica, ground.database, ground.tick
        runtime = ground.runtime
        self.fetching = Fetching()
        database.ask_for = self.fetching.ask
        self.clients = ClientTable(
            database, tick, self.fetching, encode=runtime.encode, clock=runtime.clock
        )
        self.cold = ColdReads(replica, tick, self.fetching, self.clients, ground.deadlines)
        self.gate = WriteGate(database, tick)
        self.answer_time = AnswerTime(runtime.clock)
