"""Errors of peers."""

from crdtstream.core.ids import RegionId


class PeerError(Exception):
    """Input from a peer that cannot be used: the text names the region, the batch and its field."""

    def __init__(self, region: RegionId, text: str) -> None:
        super().__init__(f"region {region}: {text}")
        self.region = region


class RefusedError(PeerError):
    """The peer wants no link with us: another database, the same region id, an unknown region."""
