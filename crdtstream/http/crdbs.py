"""Redis Enterprise's pages about Active-Active databases, as its clients ask them.

    /v1/crdbs                         all of them: this node has one, once its regions agree on it
    /v1/crdbs/<guid>                  that one: its members, as this node knows them
    /v1/crdbs/<guid>/health_report    what each region knows of it, and its links

An *instance* is a region here, and its *cluster* is where the region's node is.  Regions that were
removed are no instances.  The first two pages show what this node knows.  The last one asks all
regions, or the one that ``instance_id`` names.

Source: redis.io, operate/rs/references/rest-api, requests/crdbs and objects/crdb.
"""

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from crdtstream.core.ids import RegionId
from crdtstream.core.membership.members import Member, Status
from crdtstream.core.uid import shown_uid
from crdtstream.http.answers import number, parameters, refusal
from crdtstream.http.bdbs import AOF_POLICIES, BDB_UID
from crdtstream.http.page_sources import PageSources

INSTANCE_ID: Final = "instance_id"
GUID_SHOWN_MAX: Final = 64


def routes(sources: PageSources) -> list[Route]:
    """These pages, for one node."""
    pages = CrdbPages(sources)
    return [
        Route("/v1/crdbs", pages.crdbs, methods=["GET"]),
        Route("/v1/crdbs/{guid}", pages.crdb, methods=["GET"]),
        Route("/v1/crdbs/{guid}/health_report", pages.health_report, methods=["GET"]),
    ]


class CrdbPages:
    """The pages of one node."""

    def __init__(self, sources: PageSources) -> None:
        self._settings = sources.settings
        self._region = sources.engine.region
        self._health_reports = sources.health_reports

    async def crdbs(self, request: Request) -> Response:
        parameters(request)
        return JSONResponse([self._crdb()] if self._guid else [])

    async def crdb(self, request: Request) -> Response:
        instance = _instance(request)
        missing = self._is_missing(request)
        if missing is not None:
            return missing
        here = self._region.replica.region
        if instance not in (None, here):
            return refusal(
                404,
                "instance_not_found",
                f"this node knows the configuration of instance {here} only; ask the node of"
                f" instance {instance}, or the health report",
            )
        return JSONResponse(self._crdb())

    async def health_report(self, request: Request) -> Response:
        instance = _instance(request)
        missing = self._is_missing(request)
        return missing or JSONResponse(await self._health_reports(instance))

    # --- The database -------------------------------------------------------------------------

    @property
    def _guid(self) -> str:
        """Empty while the regions have not agreed on it."""
        return shown_uid(self._region.replica.database_uid)

    def _is_missing(self, request: Request) -> Response | None:
        """The answer if there is no such database; None if there is."""
        guid = request.path_params["guid"]
        if self._guid and guid == self._guid:
            return None
        there = f"this node has {self._guid}" if self._guid else "this node has none yet"
        return refusal(
            404, "crdb_not_found", f"CRDB {guid[:GUID_SHOWN_MAX]} does not exist; {there}"
        )

    def _crdb(self) -> dict[str, Any]:
        here = self._region.replica.region
        shared = self._shared_config()
        return {
            "guid": self._guid,
            "name": self._settings.database_id,
            # Effects are applied behind all that their region had observed, always.
            "causal_consistency": True,
            # Of the links between regions.
            "encryption": self._settings.tls_replication,
            "default_db_config": shared,
            "instances": [
                {
                    "id": region,
                    "cluster": cluster,
                    "db_config": self._own_config() if region == here else {},
                    "db_uid": str(BDB_UID) if region == here else "",
                }
                for region, cluster in sorted(self._clusters().items())
            ],
            "local_databases": [{"bdb_uid": str(BDB_UID), "id": here}],
            "modules": [],
        }

    def _clusters(self) -> dict[RegionId, dict[str, str]]:
        """All regions that take part, and where they are, as far as that is known."""
        known = self._region.membership.known
        return {
            one.region: self._found(one)
            for one in known.regions
            if one.status is not Status.REMOVED
        }

    def _found(self, member: Member) -> dict[str, str]:
        """A region; addresses that no change has named are those of this node's file."""
        contact, settings = member.contact, self._settings
        grpc = contact.grpc or self._region.membership.members.address_of(member.region)
        if member.region != self._region.replica.region:
            return self._cluster(contact.name, contact.http, grpc or "")
        return self._cluster(
            contact.name, contact.http or settings.http_address, grpc or settings.grpc_address
        )

    def _cluster(self, name: str, http: str, grpc: str) -> dict[str, str]:
        # Pages of all regions are taken to be reached as those of this one.
        url = f"{self._settings.http_scheme}://{http}" if http else ""
        return {"name": name, "url": url, "replication_endpoint": grpc}

    def _shared_config(self) -> dict[str, Any]:
        """Configuration of the database that is the same in every region."""
        return {
            "name": self._settings.database_id,
            "data_persistence": "aof",
            "oss_cluster": False,
            "replication": False,
            "sharding": False,
            "shards_count": 1,
        }

    def _own_config(self) -> dict[str, Any]:
        """Configuration that may differ between regions; ``memory_size`` 0: no bound."""
        settings, region = self._settings, self._region
        return {
            "aof_policy": AOF_POLICIES[region.durability.appendfsync],
            "memory_size": region.memory.maxmemory,
            "port": settings.announce_port or settings.client_port,
        }


def _instance(request: Request) -> int | None:
    """The instance that is asked for; None: no certain one.

    Raises:
        AskedWrongError: a parameter or value that there is not.
    """
    text = parameters(request, INSTANCE_ID).get(INSTANCE_ID)
    return None if text is None else number(INSTANCE_ID, text)
