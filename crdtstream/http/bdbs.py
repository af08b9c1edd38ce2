"""Redis Enterprise's pages about databases, as its clients ask them.

    /v1/bdbs                                        all databases: this node has one
    /v1/bdbs/<uid>                                  that one
    /v1/bdbs/<uid>/availability                     may clients use it here?
    /v1/local/bdbs/<uid>/endpoint/availability      the same of this node's own port

The last two take ``extend_check=lag`` and ``availability_lag_tolerance_ms``: is this region also
current enough?  Available is 200 without a body; else the body says why.

Clients find their database by host and port of its endpoints.  The name in a client's request for
this page is one of them, as the client may know the node's Redis port by that name, too.

Source: redis.io, operate/rs/references/rest-api, requests/bdbs and objects/bdb.
"""

import asyncio
import re
from typing import Any, Final, NamedTuple

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from crdtstream.core.uid import shown_uid
from crdtstream.http.answers import AskedWrongError, number, parameters, refusal
from crdtstream.http.page_sources import PageSources
from crdtstream.region.links.link import LinkState
from crdtstream.settings.addresses import WILDCARDS, is_loopback

# One node, one database.
BDB_UID: Final = 1
LAG: Final = "lag"
CHECKS: Final = frozenset({LAG})
EXTEND_CHECK: Final = "extend_check"
TOLERANCE: Final = "availability_lag_tolerance_ms"
FIELDS: Final = "fields"
# A DNS name, or an address without brackets; 253 is the longest that DNS has.
HOST: Final = re.compile(r"[0-9A-Za-z_.:-]{1,253}")
AOF_POLICIES: Final = {
    "always": "appendfsync-always",
    "everysec": "appendfsync-every-sec",
    "no": "appendfsync-no",
}


def routes(sources: PageSources) -> list[Route]:
    """These pages, for one node."""
    pages = BdbPages(sources)
    return [
        Route("/v1/bdbs", pages.bdbs, methods=["GET"]),
        Route("/v1/bdbs/{uid}", pages.bdb, methods=["GET"]),
        Route("/v1/bdbs/{uid}/availability", pages.availability, methods=["GET"]),
        Route(
            "/v1/local/bdbs/{uid}/endpoint/availability",
            pages.endpoint_availability,
            methods=["GET"],
        ),
    ]


class Unavailable(NamedTuple):
    """Why clients should not use this node; ``lacks_quorum``: it may be cut off from the others."""

    reason: str
    lacks_quorum: bool = False


class BdbPages:
    """The pages of one node."""

    def __init__(self, sources: PageSources) -> None:
        self._settings = sources.settings
        self._region = sources.engine.region
        self._version = sources.version

    async def bdbs(self, request: Request) -> Response:
        wanted = parameters(request, FIELDS)
        return JSONResponse([_only(self._bdb(request), wanted)])

    async def bdb(self, request: Request) -> Response:
        wanted = parameters(request, FIELDS)
        missing = _is_missing(request)
        return missing or JSONResponse(_only(self._bdb(request), wanted))

    async def availability(self, request: Request) -> Response:
        return self._answer(
            request, "bdb_unavailable", f"BDB {request.path_params['uid']} is not available"
        )

    async def endpoint_availability(self, request: Request) -> Response:
        return self._answer(
            request,
            "bdb_endpoint_unavailable",
            f"Local endpoint of BDB {request.path_params['uid']} on node"
            f" {self._region.replica.region} is not available",
        )

    # --- Availability -------------------------------------------------------------------------

    def _answer(self, request: Request, error_code: str, what: str) -> Response:
        tolerance_ms = self._tolerance_ms(request)
        missing = _is_missing(request)
        if missing is not None:
            return missing
        found = self._unavailable(tolerance_ms)
        if found is None:
            return Response(status_code=200)
        if found.lacks_quorum:
            error_code = "no_quorum"
        return refusal(503, error_code, f"{what}: {found.reason}")

    def _tolerance_ms(self, request: Request) -> int | None:
        """Lag that the region may have; None: the request does not ask for a check of the lag.

        Raises:
            AskedWrongError: a parameter or value does not exist.
        """
        given = parameters(request, EXTEND_CHECK, TOLERANCE)
        checks = given[EXTEND_CHECK].split(",") if EXTEND_CHECK in given else []
        for check in checks:
            if check not in CHECKS:
                raise AskedWrongError(f"{EXTEND_CHECK} cannot be {check[:64]!r}; there is lag")
        text = given.get(TOLERANCE)
        tolerance_ms = (
            self._settings.availability_lag_tolerance_ms
            if text is None
            else number(TOLERANCE, text)
        )
        return tolerance_ms if checks else None

    def _unavailable(self, tolerance_ms: int | None) -> Unavailable | None:
        region = self._region
        refused = region.refuses_writes
        if refused is not None:
            return Unavailable(f"writes are refused: {refused}")
        slow = region.answer_time.obstacle()
        if slow is not None:
            return Unavailable(slow)
        if tolerance_ms is None:
            return None
        fresh = region.freshness(asyncio.get_running_loop().time())
        if fresh.is_minority and self._settings.availability_in_minority == "unavailable":
            return Unavailable(
                f"region {region.replica.region} hears {fresh.linked} of its {fresh.peers} peers,"
                " so it may be the one that is cut off. It takes reads and writes nevertheless:"
                " asked without extend_check=lag it is available. If the others are lost, remove"
                " them with `crdtstream crdb remove-instance`, or set"
                ' availability_in_minority = "available" and start it again',
                lacks_quorum=True,
            )
        if fresh.lag_ms > tolerance_ms:
            return Unavailable(
                f"region {region.replica.region} is {fresh.lag_ms} ms behind its peers;"
                f" {tolerance_ms} ms are tolerated"
            )
        return None

    # --- The database -------------------------------------------------------------------------

    def _bdb(self, request: Request) -> dict[str, Any]:
        settings, region = self._settings, self._region
        pulls = region.links.pulls.values()
        is_paused = bool(pulls) and all(pull.link.state is LinkState.PAUSED for pull in pulls)
        return {
            "uid": BDB_UID,
            "name": settings.database_id,
            "type": "redis",
            "status": "active" if region.refuses_writes is None else "recovery",
            "version": self._version,
            "port": self._port,
            "endpoints": [self._endpoint(request)],
            "crdt": True,
            "crdt_guid": shown_uid(region.replica.database_uid),
            "crdt_replica_id": region.replica.region,
            "crdt_sync": "paused" if is_paused else "enabled",
            "data_persistence": "aof",
            "aof_policy": AOF_POLICIES[region.durability.appendfsync],
            "oss_cluster": False,
            "replication": False,
            "sharding": False,
            "shards_count": 1,
        }

    @property
    def _port(self) -> int:
        return self._settings.announce_port or self._settings.client_port

    def _endpoint(self, request: Request) -> dict[str, Any]:
        hosts = self._hosts(request)
        return {
            "uid": f"{BDB_UID}:1",
            "dns_name": hosts[0],
            "addr": hosts,
            "addr_type": "internal",
            "port": self._port,
            "proxy_policy": "single",
        }

    def _hosts(self, request: Request) -> list[str]:
        """The names and addresses by which clients may know this node, each once."""
        settings = self._settings
        found = [*settings.announce_hosts]
        asked = request.url.hostname or ""
        if HOST.fullmatch(asked):
            found.append(asked)
        listens = settings.host.strip("[]")
        if listens not in WILDCARDS:
            found.append(listens)
            if is_loopback(settings.host):
                found.append("localhost")
        # The address to which this request was sent.
        if request.scope.get("server"):
            found.append(request.scope["server"][0])
        return list(dict.fromkeys(found))


def _is_missing(request: Request) -> Response | None:
    """The answer if there is no such database; None if there is.

    Raises:
        AskedWrongError: the uid is no number.
    """
    uid = number("uid", request.path_params["uid"])
    if uid == BDB_UID:
        return None
    return refusal(404, "db_not_found", f"BDB {uid} does not exist; this node has BDB {BDB_UID}")


def _only(bdb: dict[str, Any], wanted: dict[str, str]) -> dict[str, Any]:
    """The fields that are asked for; unknown fields are left out, as in Redis Enterprise."""
    if FIELDS not in wanted:
        return bdb
    names = wanted[FIELDS].split(",")
    return {name: value for name, value in bdb.items() if name in names}
