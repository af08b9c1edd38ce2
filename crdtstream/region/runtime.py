"""Dependencies of a region on the process that it lives in."""

from collections.abc import Callable
from dataclasses import dataclass

from crdtstream.core.ids import Millis
from crdtstream.core.uid import DatabaseUid
from crdtstream.region.clients import Encode


@dataclass(frozen=True, slots=True)
class Runtime:
    """See the module's text.

    Attributes:
        now: this machine's clock.
        encode: makes a reply the bytes of a protocol version.
        clock: a monotonic clock in nanoseconds; for turns and answer times, not for decisions.
        uniform: a random number between two; for the pauses between attempts.
        make_uid: 16 random bytes.
    """

    now: Callable[[], Millis]
    encode: Encode
    clock: Callable[[], int]
    uniform: Callable[[float, float], float]
    make_uid: Callable[[], DatabaseUid]
