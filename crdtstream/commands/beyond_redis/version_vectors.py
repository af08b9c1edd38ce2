"""Version vectors as clients carry them about: cursors and tokens.

    5f0c…/1:42@1764012345678~40.9c41e07d,2:17
    └ database               │           └ of region 2 the effects up to 17, in a folder of
          │                  │             incarnation 0
          │                  └ those up to 40 have this hash
          └ of region 1 the effects up to 42, as its incarnation 1764012345678 has them

Dots of another database mean other effects, so the text names the database.  Those of another
incarnation of a region (``core/incarnations.py``) may do so, too.  Incarnation 0 is not written:
people write dots without one.

And so may dots of one incarnation, if a folder was cloned with all that tells it apart.  Hence the
hash (``core/histories.py``) of the effects up to the end of a batch: the newest batch that the
region knows and that does not end beyond the dot.  The end is not written if it is the dot.  A
region that has another hash for such an end has other effects.  A region that does not know the end
takes it for the same.

The text is ours, but clients send it: it is checked as strictly as any argument.
"""

import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from crdtstream.commands.arguments import I64_MAX, parse_i64, shown
from crdtstream.commands.reply import CommandError
from crdtstream.core.clock import MutableVersionVector, VersionVector
from crdtstream.core.histories import SHORT_BITS, Point
from crdtstream.core.ids import REGION_MAX, RegionId
from crdtstream.core.membership.lost import told_lost
from crdtstream.core.replica import Replica
from crdtstream.core.uid import DatabaseUid, parse_uid, shown_uid

# Nothing has been seen: there are no dots to name.
NOTHING: Final = b"0"
SEPARATOR: Final = b"/"
INCARNATION: Final = b"@"
HASH: Final = b"~"
_HASH_DIGITS: Final = SHORT_BITS // 4
_IS_HASH: Final = re.compile(rb"[0-9a-f]{%d}" % _HASH_DIGITS)
# Every region with the longest numbers, each with a comma.
_BYTES_MAX: Final = REGION_MAX * (
    len(f"{REGION_MAX}:{I64_MAX}@{I64_MAX}~{I64_MAX}.,") + _HASH_DIGITS
)
_SHOWN_BYTES_MAX: Final = 32


class Named(NamedTuple):
    """Effects that a client has had.

    Attributes:
        numbers: by region the incarnation in which its effects are named; without one it is 0.
        points: by region the point that says which effects those are, if it is known.
    """

    vv: MutableVersionVector
    numbers: Mapping[RegionId, int]
    points: Mapping[RegionId, Point]


NOTHING_NAMED: Final = Named({}, {}, {})


def named_here(replica: Replica, vv: VersionVector) -> Named:
    """A version vector of effects as they are here."""
    return Named(dict(vv), replica.numbers_of(vv), replica.points_of(vv))


def encode_version_vector(replica: Replica, vv: VersionVector) -> bytes:
    """The text for a version vector of effects as they are here."""
    return encode_named(replica, named_here(replica, vv))


def encode_without_hashes(replica: Replica, vv: VersionVector) -> bytes:
    """The same, for people and for what keeps many: it does not distinguish clones of a folder."""
    return encode_named(replica, Named(dict(vv), replica.numbers_of(vv), {}))


def encode_named(replica: Replica, named: Named) -> bytes:
    """Regions ascending, ``0`` if there are none; before it, if it is known, the database."""
    uid = replica.database_uid
    parts = [_component(region, n, named) for region, n in sorted(named.vv.items())]
    text = ",".join(parts).encode() or NOTHING
    return shown_uid(uid).encode() + SEPARATOR + text if uid else text


def _component(region: RegionId, n: int, named: Named) -> str:
    text = f"{region}:{n}"
    if region in named.numbers:
        text += f"@{named.numbers[region]}"
    point = named.points.get(region)
    if point is not None:
        end = "" if point.n == n else f"{point.n}."
        text += f"~{end}{point.hash:0{_HASH_DIGITS}x}"
    return text


def parse_version_vector(text: bytes, uid: DatabaseUid, *, what: str) -> Named:
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
        return NOTHING_NAMED
    if len(text) > _BYTES_MAX:
        raise CommandError(f"ERR Invalid {what}: longer than {_BYTES_MAX} bytes")
    vv: MutableVersionVector = {}
    numbers: dict[RegionId, int] = {}
    points: dict[RegionId, Point] = {}
    for part in text.split(b","):
        region, n, number, point = _parse_component(part, what)
        if region in vv:
            raise CommandError(f"ERR Invalid {what}: region {region} stands in it twice")
        vv[region] = n
        if n and number:
            numbers[region] = number
        if point is not None:
            points[region] = point
    return Named({region: n for region, n in vv.items() if n}, numbers, points)


def refuse_lost(replica: Replica, named: Named) -> None:
    """Refuse a version vector that names effects which exist nowhere: waiting would not end.

    Raises:
        CommandError: LOST, with the region and the first effect of it that does not exist.
    """
    lost = replica.lost_of(named.vv, named.numbers, named.points)
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


def _parse_component(part: bytes, what: str) -> tuple[RegionId, int, int, Point | None]:
    """A region, the number of its effects, their incarnation, and the point that identifies
    them."""
    region_text, colon, rest = part.partition(b":")
    rest, is_hashed, point_text = rest.partition(HASH)
    n_text, mark, number_text = rest.partition(INCARNATION)
    region, n = parse_i64(region_text), parse_i64(n_text)
    number = parse_i64(number_text) if mark else 0
    found = shown(part[:_SHOWN_BYTES_MAX])
    if not colon or region is None or n is None or n < 0:
        raise CommandError(
            f"ERR Invalid {what}: '{found}' is no region:number with a number below 2^63"
        )
    if number is None or number < 0:
        raise CommandError(
            f"ERR Invalid {what}: '{found}' names no incarnation, which is a number below 2^63"
        )
    if not 1 <= region <= REGION_MAX:
        raise CommandError(f"ERR Invalid {what}: regions are numbered from 1 to {REGION_MAX}")
    point = _parse_point(point_text, n) if is_hashed else None
    if is_hashed and point is None:
        raise CommandError(
            f"ERR Invalid {what}: '{found}' has no hash of {_HASH_DIGITS} hexadecimal digits at its"
            " end, or it is of effects beyond the number"
        )
    return RegionId(region), n, number, point


def _parse_point(text: bytes, n: int) -> Point | None:
    """``hash`` or ``end.hash``; None: it is neither."""
    end_text, dot, hash_text = text.rpartition(b".")
    end = parse_i64(end_text) if dot else n
    if end is None or not 0 < end <= n or _IS_HASH.fullmatch(hash_text) is None:
        return None
    return Point(end, int(hash_text, 16))
