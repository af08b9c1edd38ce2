"""Asking one node after the other: which failures are retried, how long, and which are final."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import grpc

from crdtstream.spark.connecting import (
    DataLossError,
    NodesError,
    OtherDatabaseError,
    StaleAppendError,
    UnansweredError,
)
from crdtstream.spark.other_ports import port_at

PAUSE_SECONDS_MIN: Final = 0.02
PAUSE_SECONDS_MAX: Final = 1.0

# Passing states: another node, or this one a little later, may do it.
_PASSING: Final = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.DEADLINE_EXCEEDED,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.ABORTED,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
    }
)
# A fault of one node, perhaps of all: each is asked once, and not again.
_FAULTS: Final = frozenset(
    {grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN, grpc.StatusCode.DATA_LOSS}
)
# In gRPC's words: what a plain connection to a port with TLS comes to, and TLS that failed.
_CLOSED: Final = "Socket closed"
_HANDSHAKE: Final = "andshake"
# In OpenSSL's words: TLS to a port that has none.
_NO_TLS: Final = "WRONG_VERSION_NUMBER"
# A node's refusal of a call that names a database while it does not know its own.
_UNNAMED: Final = "this node holds none yet"


class Attempts:
    """Addresses to try, one after the other, with pauses, until the time for it is up."""

    def __init__(
        self,
        method: str,
        in_turn: Callable[[], Iterable[str]],
        failover_seconds: float,
        *,
        tls: bool = False,
    ) -> None:
        """
        Args:
            in_turn: the addresses in the order in which to ask, asked for in each round.
            tls: connections speak TLS.
        """
        self._tls = tls
        self._method = method
        self._in_turn = in_turn
        self._seconds_max = failover_seconds
        self._problems: dict[str, str] = {}
        self._faulty: set[str] = set()
        self._deadline = time.monotonic() + failover_seconds
        self._pause_seconds = PAUSE_SECONDS_MIN

    def __iter__(self) -> Iterator[str]:
        while True:
            yield from self._in_turn()
            remaining = self._deadline - time.monotonic()
            if remaining <= 0:
                raise UnansweredError(self._given_up())
            time.sleep(min(self._pause_seconds, remaining))
            self._pause_seconds = min(2 * self._pause_seconds, PAUSE_SECONDS_MAX)

    def progressed(self) -> None:
        """Something came: the next failure has its own time."""
        self._problems.clear()
        self._faulty.clear()
        self._deadline = time.monotonic() + self._seconds_max
        self._pause_seconds = PAUSE_SECONDS_MIN

    def not_yet(self, address: str, reason: str) -> None:
        """Take note of a node that does not know its database yet."""
        self._problems[address] = f"{address}: its database has no identity yet: {reason}"

    def failed(self, address: str, error: grpc.RpcError) -> None:
        """Take note of a failure.

        Raises:
            NodesError: asking again, or another node, would not help.
        """
        code, details = error.code(), error.details() or "no reason given"
        told = f"{address}: {details}"
        match code:
            case _ if code in _PASSING:
                self._problems[address] = told
            case grpc.StatusCode.FAILED_PRECONDITION if details.startswith("behind"):
                self._problems[address] = told
            case grpc.StatusCode.INVALID_ARGUMENT if details.startswith("database:"):
                if _UNNAMED not in details:
                    raise OtherDatabaseError(told) from error
                self._problems[address] = told
            case grpc.StatusCode.FAILED_PRECONDITION if details.startswith("stale"):
                raise StaleAppendError(told) from error
            case grpc.StatusCode.OUT_OF_RANGE if details.startswith("LOST"):
                # No region has these effects, nor will any.
                raise DataLossError(details) from error
            case _ if code in _FAULTS and address not in self._faulty:
                self._faulty.add(address)
                self._problems[address] = f"{told} ({code.name})"
            case grpc.StatusCode.UNAUTHENTICATED:
                raise NodesError(
                    f"{told}: give the options user and passwordFile (or password)"
                ) from error
            case grpc.StatusCode.PERMISSION_DENIED:
                # It says itself which right is missing, or whose certificate was shown.
                raise NodesError(f"{self._method} at {told}") from error
            case grpc.StatusCode.UNIMPLEMENTED:
                raise NodesError(
                    f"the node at {address} does not know {self._method}: it runs an earlier"
                    " version, so upgrade it and run again; or what answers there is no region"
                    " node: name its gRPC port (738r), or that of its [query]"
                ) from error
            case _:
                raise NodesError(f"{self._method} at {told} ({code.name})") from error

    def _given_up(self) -> str:
        tried = "; ".join(self._problems.values())
        advice = "Start the nodes, name others in the option 'nodes', or raise failoverSeconds"
        others = [f"{one} is {what}" for one in self._problems if (what := port_at(one))]
        if others:
            advice = f"{'; '.join(others)}: name gRPC ports (738r) in the option 'nodes'"
        elif self._tls and _NO_TLS in tried:
            advice = "A port there speaks no TLS: leave out tls and the files of a certificate"
        elif not self._tls and _CLOSED in tried:
            advice = (
                "A node that speaks TLS only ends plain connections: name the files of a"
                " certificate (tlsCertFile, tlsKeyFile, tlsCaCertFile; for commands"
                " --tls-cert-file and so on)"
            )
        elif self._tls and _HANDSHAKE in tried:
            advice = (
                "The node must have a certificate of an authority in tlsCaCertFile, with the host"
                " of its address in it; or it does not take tlsCertFile, as its log may say"
            )
        return f"no node did {self._method} within {self._seconds_max:g} s: {tried}. {advice}"
