"""A region below its links: the groups of parts that are assembled in one place each."""

from dataclasses import dataclass

from crdtstream.region.client_side import ClientSide
from crdtstream.region.ground import Ground
from crdtstream.region.others import Others
from crdtstream.region.participation import Participation
from crdtstream.region.storage import Storage


@dataclass(frozen=True, slots=True, eq=False)
class Assembled:
    """See the module's text; each group has a module, named as the field."""

    ground: Ground
    client_side: ClientSide
    storage: Storage
    participation: Participation
    others: Others
