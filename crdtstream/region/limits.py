"""The bounds of a region's queues and waits, as plain values."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RegionLimits:
    """Limits that an operator may set; ``settings.Limits`` explains each."""

    commit_queue_records_max: int = 10_000
    link_message_bytes_target: int = 256 << 10
    inbox_batches_max: int = 10_000
    inbox_bytes_max: int = 64 << 20
    inbox_wait_ms_max: int = 2_000
    backoff_ms_min: int = 50
    backoff_ms_max: int = 5_000
    heartbeat_interval_ms: int = 250
    link_silence_ms_max: int = 3_000
    skew_warning_ms: int = 1_000
    # Nodes get theirs from the settings; a region by itself, in a test, does not wait.
    catch_up_answer_ms_max: int = 0
    catch_up_stall_ms_max: int = 10_000
