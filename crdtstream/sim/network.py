"""Connections between simulated regions: each carries messages in order, or loses them.

A line is one direction of pulling, as one gRPC call is: requests go one way, responses the other.
Messages travel as the bytes of the real protocol.  The world decides what a network does to them: a
message is delivered late or never, a connection breaks with all that is on it, one way is cut and
the other is not.  Connections are independent, so messages of two of them come in any order.
"""

from collections import deque
from collections.abc import Callable
from math import inf
from typing import Final

from crdtstream.core.ids import RegionId
from crdtstream.region.links.errors import PeerError
from crdtstream.region.links.link import Failed, Refused
from crdtstream.region.links.messages import Progress, Refusal, RefusalKind
from crdtstream.region.links.pull import Connect, HangUp, Over, Pull
from crdtstream.region.links.pull import Send as PullSend
from crdtstream.region.links.pull import Sleep as PullSleep
from crdtstream.region.links.serve import End, Read, Seek, Send, Serve, Sleep
from crdtstream.replication.wire import (
    BatchPacker,
    BatchUnpacker,
    decode_ack,
    decode_open,
    decode_response,
    encode_request,
    encode_response,
)
from crdtstream.sim.disk import now
from crdtstream.sim.simulated_node import SimNode
from crdtstream.v1 import replication_pb2 as pb

BATCH_BYTES_MAX: Final = 1 << 30


class Line:
    """Way by which ``puller`` pulls from ``server``.

    Attributes:
        is_connected: a call is open.
        requests, responses: messages on their way.
        on_progress: called with each ack and heartbeat that an end sends, and that end.
    """

    def __init__(self, puller: SimNode, server: SimNode) -> None:
        self.puller = puller
        self.server = server
        self.is_connected = False
        self.requests: deque[bytes] = deque()
        self.responses: deque[bytes] = deque()
        self.on_progress: Callable[[SimNode, Progress], None] = _nobody_looks
        self._serve: Serve | None = None
        # The link that the puller's loop works for; it ends its call before it ends itself.
        self._pull: Pull | None = None
        # Time until which each end has nothing to do, unless it is woken.
        self._puller_sleeps = 0.0
        self._server_sleeps = 0.0
        self._packer = BatchPacker()
        self._unpacker = BatchUnpacker(server.number, bytes_max=BATCH_BYTES_MAX)

    @property
    def pair(self) -> tuple[RegionId, RegionId]:
        return self.puller.number, self.server.number

    def wake(self, link: object) -> None:
        """Wake a link that a Ready names, as it has something to do."""
        if link is self._serve:
            self._server_sleeps = 0.0
        elif link is self._look_for_pull():
            self._puller_sleeps = 0.0

    def _look_for_pull(self) -> Pull | None:
        """Link of the puller to this server; None: it has none, or is down."""
        if self._pull is None and self.puller.is_up:
            self._pull = self.puller.region.links.pulls.get(self.server.number)
        return self._pull

    # --- Steps --------------------------------------------------------------------------------

    def step_puller(self, at: float, *, reaches: bool) -> bool:
        """Let the pulling end do one thing; return True if it did any.

        Args:
            reaches: a new connection can be made.
        """
        node = self.puller
        if not node.is_up or at < self._puller_sleeps:
            return False
        pull = self._look_for_pull()
        if pull is None:
            return False
        match pull.next(node.clock, at):
            case Connect():
                self.is_connected = True
                if not (reaches and self.server.is_up):
                    self.lose("cannot be reached")
            case PullSend(message):
                if isinstance(message, Progress):
                    self.on_progress(node, message)
                self.requests.append(encode_request(message).SerializeToString())
            case HangUp():
                self._close()
            case PullSleep(until):
                self._puller_sleeps = inf if until is None else until
                return False
            case Over():
                self._pull = None
        return True

    def step_server(self, at: float) -> bool:
        """Let the serving end do one thing; return True if it did any."""
        serve, node = self._serve, self.server
        if serve is None or not node.is_up or at < self._server_sleeps:
            return False
        match serve.next(node.clock, at):
            case Seek(vv, origins):
                serve.begin_at(now(node.disk.seek(vv, origins)))
            case Read(seq, bytes_max):
                rows = now(node.disk.read_from(seq, bytes_max=bytes_max))
                serve.take([row.record for row in rows])
            case Send(message):
                if isinstance(message, Progress):
                    self.on_progress(node, message)
                response = encode_response(message, self._packer)
                self.responses.append(response.SerializeToString())
            case Sleep(until):
                self._server_sleeps = until
                return False
            case End():
                self.lose("ended the call")
        return True

    def deliver_request(self, at: float) -> None:
        """Deliver the oldest message on its way to the server."""
        request = pb.SyncRequest.FromString(self.requests.popleft())
        if not self.server.is_up:
            return
        if self._serve is None:
            self._open(request, at)
            return
        try:
            self._serve.receive(decode_ack(self.puller.number, request), at)
        except PeerError as error:
            self.lose(str(error))

    def _open(self, request: pb.SyncRequest, at: float) -> None:
        answer = self.server.region.links.accept(decode_open(request.open), at)
        if isinstance(answer, Refusal):
            is_duplicate = answer.kind is RefusalKind.DUPLICATE
            self._end(Refused(answer.reason, is_duplicate, answer.incarnations))
        else:
            self._serve = answer
            self._server_sleeps = 0.0

    def deliver_response(self, at: float, *, stays: bool = False) -> None:
        """Deliver the oldest message on its way to the puller.

        Args:
            stays: it will come once more.
        """
        data = self.responses[0] if stays else self.responses.popleft()
        node, pull = self.puller, self._pull
        if pull is None:
            return
        response = pb.SyncResponse.FromString(data)
        try:
            received = decode_response(self.server.number, response, self._unpacker)
        except PeerError as error:
            self._end(Failed(str(error)))
        else:
            pull.receive(received, node.clock, at)

    @property
    def may_deliver_response(self) -> bool:
        return bool(self.responses) and self._pull is not None and self._pull.may_read

    # --- Endings ------------------------------------------------------------------------------

    def lose(self, reason: str) -> None:
        """Break the connection, with all that is on it."""
        if self.is_connected:
            self._end(Failed(reason))

    def _end(self, event: Failed | Refused) -> None:
        self._close()
        if self._pull is not None:
            self._pull.lost(event, self.puller.clock)

    def _close(self) -> None:
        self.is_connected = False
        self.requests.clear()
        self.responses.clear()
        if self._serve is not None and self.server.is_up:
            self.server.region.links.hang_up(self._serve)
        self._serve = None

    def process_died(self, node: SimNode) -> None:
        """Note that one end is gone; the other sees a connection that broke."""
        self._puller_sleeps = 0.0
        if node is self.server:
            self._serve = None
            self.lose("the process died")
        else:
            self._pull = None
        self._close()


def _nobody_looks(_node: SimNode, _progress: Progress) -> None:
    pass
