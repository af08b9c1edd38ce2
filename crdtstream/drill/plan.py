"""Plan of the load's process: the places of regions, the work of each client, and its time."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from crdtstream.drill.access import NO_ACCESS, Access
from crdtstream.drill.drill import Consumers, Producers, Readers

# A request without a reply for this long counts as failed; half-dead regions answer nothing.
REQUEST_SECONDS_MAX: Final = 1.0
BLOCK_MS: Final = 200
READ_COUNT: Final = 200
# Pause before a client tries again after a failure, and interval of looks whether its home is well.
RETRY_SECONDS: Final = 0.1
HOME_CHECK_SECONDS: Final = 0.5
# Time for which rows are tried whose outcome is open when the load ends.
FINISH_SECONDS_MAX: Final = 20.0

# Error replies by which a region says that another one should be asked: it cannot write, or must
# not, until it has caught up or others have.
MISCONF: Final = "MISCONF"
LAGGED: Final = "LAGGED"
ELSEWHERE: Final = (MISCONF, LAGGED)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Place(_Part):
    """Addresses of a region for clients.

    Attributes:
        host, port: of RESP.
        http_port: of the health endpoints, on the same host.
        resp_tls, http_tls: these ports speak TLS.
    """

    host: str
    port: int
    http_port: int
    resp_tls: bool = False
    http_tls: bool = False


class LoadPlan(_Part):
    """One load.

    Attributes:
        places: by region.
        access: presented to all of them.
        streams: keys, in the order in which producers take them.
    """

    places: dict[int, Place]
    access: Access = NO_ACCESS
    streams: tuple[str, ...]
    entry_bytes: int
    seconds: float
    items: tuple[Annotated[Producers | Consumers | Readers, Field(discriminator="kind")], ...]


class HerdPlan(_Part):
    """A part of a herd: clients of one process.

    Attributes:
        access: presented to the region.
        first: number of the first client, so that names of several parts differ.
    """

    place: Place
    access: Access = NO_ACCESS
    region: int
    stream: str
    first: int
    clients: int
