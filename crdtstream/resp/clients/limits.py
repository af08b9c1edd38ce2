"""The bounds of a connection, taken from the settings."""

from dataclasses import dataclass

from crdtstream.resp.clients.output_limits import OutputLimit, OutputLimits
from crdtstream.resp.wire.parser import RequestLimits
from crdtstream.settings.tables import Limits


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """See the fields of the same name in ``settings.Limits``.

    Attributes:
        output: bounds on what clients leave unread.
    """

    request: RequestLimits
    clients_max: int
    clients_per_address_max: int
    newcomers_max: int
    login_ms_max: int
    output: OutputLimits
    output_pause_bytes: int
    pending_replies_max: int


def connection_limits(limits: Limits) -> ConnectionLimits:
    return ConnectionLimits(
        request=RequestLimits(
            bulk_bytes_max=limits.request_bytes_max,
            arguments_max=limits.request_arguments_max,
            request_bytes_max=limits.query_buffer_bytes_max,
            inline_bytes_max=limits.inline_bytes_max,
        ),
        clients_max=limits.clients_max,
        clients_per_address_max=limits.clients_per_address_max,
        newcomers_max=limits.newcomers_max,
        login_ms_max=limits.login_ms_max,
        output=OutputLimits(
            normal=OutputLimit(
                limits.output_buffer_bytes_max,
                limits.output_buffer_bytes_soft,
                limits.output_buffer_soft_s,
            ),
            pubsub=OutputLimit(
                limits.pubsub_buffer_bytes_max,
                limits.pubsub_buffer_bytes_soft,
                limits.pubsub_buffer_soft_s,
            ),
        ),
        output_pause_bytes=limits.output_pause_bytes,
        pending_replies_max=limits.pending_replies_max,
    )
