"""Records as clients would have written them, in few words."""

from crdtstream.drill.drill import Drill
from crdtstream.drill.records import (
    Acknowledged,
    Client,
    Found,
    Given,
    How,
    Late,
    Outcome,
    Record,
    Request,
    Sent,
)
from crdtstream.drill.verdict import Records

STREAM = "s"


def entry_id(n: int, region: int = 1) -> str:
    """The n-th ID of a region."""
    return f"{1000 + n}-{region}"


def client(name: str, kind: str, *, group: str = "", home: int = 1) -> Client:
    return Client(name, kind, home, group, moves=True)


def sent(
    n: int, *, by: str = "p", region: int = 1, outcome: Outcome = Outcome.OK, attempt: int = 1
) -> Sent:
    there = entry_id(n, region) if outcome is Outcome.OK else ""
    return Sent(by, n, STREAM, region, 0.1 * n, outcome, there, attempt)


def found(
    n: int, *, by: str = "p", lane: int = 1, regions: tuple[int, ...] = (1, 2)
) -> list[Found]:
    return [Found(region, STREAM, entry_id(n, lane), by, n) for region in regions]


def given(
    n: int,
    *,
    to: str = "c",
    region: int = 1,
    at: float = 0.0,
    how: How = How.NEW,
    lane: int = 1,
    by: str = "p",
) -> Given:
    return Given(to, STREAM, region, at, how, entry_id(n, lane), by, n)


def acknowledged(*numbers: int, by: str = "c", outcome: Outcome = Outcome.OK) -> Acknowledged:
    return Acknowledged(by, STREAM, 1, 1.0, outcome, tuple(entry_id(n) for n in numbers))


def request(
    began: float, ended: float, outcome: Outcome = Outcome.OK, *, by: str = "p", error: str = ""
) -> Request:
    return Request(by, 1, began, began, ended, outcome, error)


def late(seconds: float) -> Late:
    return Late(1.0, seconds)


def records(*given: Record | list[Found]) -> Records:
    """Records of a producer ``p`` of kind idempotent, and of what is given."""
    flat: list[Record] = [client("p", "idempotent")]
    for each in given:
        flat += each if isinstance(each, list) else [each]
    return Records.of(flat)


def drill(**changes: object) -> Drill:
    """A small drill of two regions."""
    return Drill.model_validate(
        {
            "about": "a drill of tests",
            "regions": 2,
            "seconds": 10,
            "groups": [{"name": "g"}],
            "load": [
                {"kind": "idempotent", "region": 1, "per_second": 10},
                {"kind": "consumer", "group": "g", "region": 1},
            ],
            "steps": [{"do": "kill", "region": 1, "at": 2, "lasts": 2}],
            **changes,
        }
    )
