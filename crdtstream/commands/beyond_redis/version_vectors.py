"""Version vectors as clients carry them about: cursors and tokens, ``<database>/1:42,2:17``.

Dots of another database mean other effects, so the text names the database.  The text is ours, but
it comes back from clients: it is checked as strictly as any argument.
"""

from typing import Final

from crdtstream.commands.arguments import I64_MAX, parse_i64, shown
from crdtstream.commands.reply import CommandError
from crdtstream.core.clock import MutableVersionVector, VersionVector, format_vv
from crdtstream.core.ids import REGION_MAX, RegionId
from crdtstream.core.membership.lost import told_lost
from crdtstream.core.replica import Replica
from crdtstream.core.uid import DatabaseUid, parse_uid, shown_uid

# Nothing has been seen: there are no dots to name.
NOTHING: Final = b"0"
SEPARATOR: Final = b"/"
# Every region with the longest number, each with a comma.
_BYTES_MAX: Final = REGION_MAX * len(f"{REGION_MAX}:{I64_MAX},")
_SHOWN_BYTES_MAX: Final = 32


def encode_version_vector(vv: VersionVector, uid: DatabaseUid) -> bytes:
    """Regions ascending, ``0`` if there are none; before it, if it is known, the database."""
    text = format_vv(vv).encode() or NOTHING
    return shown_uid(uid).encode() + SEPARATOR + text if uid else text


def parse_version_vector(text: bytes, uid: DatabaseUid, *, what: str) -> MutableVersionVector:
    """The version vector that a client sent back; regions may stand in any order.

    Without a database it is taken for one of this database: as a person writes it.

    Args:
        uid: which database this is.
        what: how errors call it.

    Raises:
        CommandError: it does not parse, and the text says where; or it is of another database.
    """
    before, separator, after = text.rpartition(SEPARATOR)
    if separator:
        _check_database(before, uid, what)
        text = after
    if text == NOTHING:
        return {}
    if len(text) > _BYTES_MAX:
        raise CommandError(f"ERR Invalid {what}: longer than {_BYTES_MAX} bytes")
    vv: MutableVersionVector = {}
    for part in text.split(b","):
        region, n = _parse_component(part, what)
        if region in vv:
            raise CommandError(f"ERR Invalid {what}: region {region} stands in it twice")
        vv[region] = n
    return {region: n for region, n in vv.items() if n}


def refuse_lost(replica: Replica, vv: VersionVector) -> None:
    """Refuse a version vector that names effects which exist nowhere: waiting would not end.

    Raises:
        CommandError: LOST, with the region and the first effect of it that does not exist.
    """
    lost = replica.lost_of(vv)
    if lost:
        raise CommandError(told_lost(lost))


def _check_database(text: bytes, uid: DatabaseUid, what: str) -> None:
    """Refuse what was given out by another database, or names none."""
    theirs = parse_uid(shown(text[:_SHOWN_BYTES_MAX]))
    if theirs is None or len(text) > _SHOWN_BYTES_MAX:
        found = shown(text[:_SHOWN_BYTES_MAX])
        raise CommandError(f"ERR Invalid {what}: '{found}' is no identity of a database")
    if theirs != uid:
        own = f"database {shown_uid(uid)}" if uid else "a database without identity yet"
        raise CommandError(
            f"ERR Invalid {what}: it is of database {shown_uid(theirs)}, this is {own}: "
            "begin from the start here, or ask a region of that database"
        )


def _parse_component(part: bytes, what: str) -> tuple[RegionId, int]:
    region_text, colon, n_text = part.partition(b":")
    region, n = parse_i64(region_text), parse_i64(n_text)
    if not colon or region is None or n is None or n < 0:
        found = shown(part[:_SHOWN_BYTES_MAX])
        raise CommandError(
            f"ERR Invalid {what}: '{found}' is no region:number with a number below 2^63"
        )
    if not 1 <= region <= REGION_MAX:
        raise CommandError(f"ERR Invalid {what}: regions are numbered from 1 to {REGION_MAX}")
    return RegionId(region), n
