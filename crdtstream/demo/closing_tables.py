"""The demo's closing tables."""

from rich.console import Console
from rich.table import Table

from crdtstream.demo.weather import AIRPORTS, Outcome


def show(outcome: Outcome, console: Console) -> None:
    """Print what the demo counted."""
    console.print(_entries(outcome))
    console.print(_links(outcome))
    delivered = sum(outcome.delivered.values())
    console.print(f"entries written: {outcome.written}")
    console.print(
        f"delivered to the consumer: {delivered}, of them more than once: {_again(outcome)}"
    )
    console.print(f"group lag: {outcome.lag}, pending: {outcome.pending}")
    console.print(
        f"XACKs: {outcome.acknowledged}, acknowledgement effects sent for them: "
        f"{outcome.ack_effects}"
    )
    console.print(f"left to read for the group in region 3: {outcome.read_by_other}")


def _again(outcome: Outcome) -> int:
    return sum(count > 1 for count in outcome.delivered.values())


def _entries(outcome: Outcome) -> Table:
    table = Table(title="entries by region and lane")
    table.add_column("region")
    for lane, airport in AIRPORTS.items():
        table.add_column(f"lane {lane} ({airport})", justify="right")
    table.add_column("all", justify="right")
    table.add_column("digest")
    for region, lanes in outcome.lanes.items():
        counts = [str(lanes.get(lane, 0)) for lane in AIRPORTS]
        digest = outcome.digests[region]
        table.add_row(str(region), *counts, str(sum(lanes.values())), digest[:16])
    return table


def _links(outcome: Outcome) -> Table:
    table = Table(title="links (from → to); KiB on the wire and unpacked; lag in ms")
    for name in ("link", "effects", "batches", "KiB", "unpacked", "lag p50", "p99", "max"):
        table.add_column(name, justify="right")
    for link in outcome.links:
        table.add_row(
            f"{link.peer} → {link.puller}",
            str(link.effects),
            str(link.batches),
            f"{link.wire_bytes / 1024:.0f}",
            f"{link.uncompressed_bytes / 1024:.0f}",
            str(link.lag_ms_p50),
            str(link.lag_ms_p99),
            str(link.lag_ms_max),
        )
    return table
