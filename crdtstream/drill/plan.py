"""What the load's process is told: where regions are, who does what, and how long."""

from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field

from crdtstream.drill.drill import Consumers, Producers, Readers

# A request without a reply for this long counts as failed; half-dead regions answer nothing.
REQUEST_SECONDS_MAX: Final = 1.0
BLOCK_MS: Final = 200
READ_COUNT: Final = 200
# How soon a client tries again after a failure, and how often one looks whether its home is well.
RETRY_SECONDS: Final = 0.1
HOME_CHECK_SECONDS: Final = 0.5
# Rows whose outcome is open when the load ends are tried for this long.
FINISH_SECONDS_MAX: Final = 20.0

# Error replies by which a region says that another one should be asked: it cannot write, or must
# not, until it has caught up or others have.
MISCONF: Final = "MISCONF"
LAGGED: Final = "LAGGED"
ELSEWHERE: Final = (MISCONF, LAGGED)


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Place(_Part):
    """Where clients reach a region.

    Attributes:
        host, port: of RESP.
        http_port: of the health endpoints, on the same host.
    """

    host: str
    port: int
    http_port: int


class LoadPlan(_Part):
    """One load.

    Attributes:
        places: by region.
        password: of the user ``default``; empty: none.
        streams: keys, in the order in which producers take them.
    """

    places: dict[int, Place]
    password: str = ""
    streams: tuple[str, ...]
    entry_bytes: int
    seconds: float
    items: tuple[Annotated[Producers | Consumers | Readers, Field(discriminator="kind")], ...]


class HerdPlan(_Part):
    """A part of a herd: clients of one process.

    Attributes:
        first: number of the first client, so that names of several parts differ.
    """

    place: Place
    password: str = ""
    region: int
    stream: str
    first: int
    clients: int
