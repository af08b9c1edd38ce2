"""What a peer did wrong."""

from crdtstream.core.ids import RegionId


class PeerError(Exception):
    """What came from a peer cannot be used: says which region, and which batch and field of it."""

    def __init__(self, region: RegionId, text: str) -> None:
        super().__init__(f"region {region}: {text}")
        self.region = region


class RefusedError(PeerError):
    """The peer wants no link with us: another database, the same region id, an unknown region."""
