"""Pages about a region: without sockets, by calling them as the server does."""

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message

from crdtstream.certificates.checking import Wanted
from crdtstream.certificates.watching import Certificates
from crdtstream.core.ids import Millis, RegionId
from crdtstream.core.member_changes import SECONDS_MAX, Revoke
from crdtstream.core.membership.members import apply
from crdtstream.core.membership.revoked import serial_bytes
from crdtstream.engine.engine import Engine
from crdtstream.http.app import make_app
from crdtstream.http.page_sources import PageSources
from crdtstream.region.limits import RegionLimits
from crdtstream.region.links.messages import Open, Standing
from crdtstream.region.links.serve import Serve
from crdtstream.region.opening import FolderState
from crdtstream.region.readiness import DatabaseIdentity
from crdtstream.region.region import Region
from crdtstream.settings.node_settings import NodeSettings
from crdtstream.store.log import MemoryLog
from tests.certificates.making import make, make_authority
from tests.certificates.node_folder import NodeFolder
from tests.harness.driven import UID, make_region, said_of
from tests.harness.peers import these
from tests.membership.world import founded

R1, R2, R3 = RegionId(1), RegionId(2), RegionId(3)
PLAIN = "/v1/bdbs/1/availability"
LAG = PLAIN + "?extend_check=lag"


async def no_metrics() -> bytes:
    return b""


class Pages:
    """The pages of region 1."""

    def __init__(self, region: Region, **settings: Any) -> None:
        self.region = region
        self._settings = NodeSettings(region=1, dir=Path("data"), **settings)
        # The instances that were asked for, one for each time that a health report was.
        self.asked: list[int | None] = []
        self.certificates: Certificates | None = None

    async def _reports(self, instance: int | None) -> list[dict[str, Any]]:
        self.asked.append(instance)
        return [{"active_config_version": 0}]

    async def get(
        self, path: str, *, host: str = "127.0.0.1:8381", method: str = "GET"
    ) -> tuple[int, Any]:
        parts = PageSources(
            settings=self._settings,
            engine=Engine(self.region, MemoryLog()),
            version="1",
            metrics_text=no_metrics,
            health_reports=self._reports,
            certificates=self.certificates,
        )
        name, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": method,
            "path": name,
            "raw_path": name.encode(),
            "root_path": "",
            "scheme": "http",
            "query_string": query.encode(),
            "headers": [(b"host", host.encode("latin-1"))],
            "server": ("127.0.0.1", 8381),
        }
        told: list[Message] = []

        async def receive() -> Message:
            return {"type": "http.request", "body": b"", "more_body": False}

        async def send(message: Message) -> None:
            told.append(message)

        await make_app(parts)(scope, receive, send)
        body = b"".join(message.get("body", b"") for message in told[1:])
        return told[0]["status"], json.loads(body) if body else None

    def hears(self, peer: RegionId, *, n: int = 0, ago_seconds: float = 0.0) -> None:
        """A peer links to the region, and says that it has ``n`` effects of its own."""
        opening = Open(
            peer,
            "crdb",
            1,
            frozenset({R1}),
            {peer: n} if n else {},
            Standing(DatabaseIdentity(UID), recovering=False, regains=False),
            membership=said_of(R1, *self.region.peers.addresses),
        )
        at = asyncio.get_running_loop().time() - ago_seconds
        assert isinstance(self.region.links.accept(opening, at), Serve)


async def test_a_current_region_with_a_majority_is_available() -> None:
    pages = Pages(make_region())
    pages.hears(R2)
    assert await pages.get(PLAIN) == (200, None)
    assert await pages.get(LAG) == (200, None)


async def test_a_region_in_a_minority_is_unavailable_in_the_lag_check_only() -> None:
    pages = Pages(make_region())
    assert await pages.get(PLAIN) == (200, None)
    status, body = await pages.get(LAG)
    assert (status, body["error_code"]) == (503, "no_quorum")
    assert "hears 0 of its 2 peers" in body["description"]


async def test_the_operator_may_say_that_the_others_are_lost() -> None:
    pages = Pages(make_region(), availability_in_minority="available")
    assert await pages.get(LAG) == (200, None)


async def test_the_last_region_is_available_once_the_others_are_removed() -> None:
    region = make_region()
    pages = Pages(region)
    assert (await pages.get(LAG))[0] == 503
    region.changing_peers.change(Millis(1_000), {}, leaving=[R2, R3])
    assert await pages.get(LAG) == (200, None)


async def test_a_region_that_joins_is_no_survivor_of_two() -> None:
    region = make_region(peers=[2])
    region.changing_peers.change(Millis(1_000), these(R2), is_active_here=False)
    status, body = await Pages(region).get(LAG)
    assert (status, body["error_code"]) == (503, "no_quorum")


async def test_the_survivor_of_two_is_available() -> None:
    assert await Pages(make_region(peers=[2])).get(LAG) == (200, None)


async def test_a_region_behind_the_tolerated_lag_is_unavailable() -> None:
    pages = Pages(make_region(peers=[2]), availability_lag_tolerance_ms=0)
    pages.hears(R2, n=1, ago_seconds=5.0)
    status, body = await pages.get(LAG)
    assert (status, body["error_code"]) == (503, "bdb_unavailable")
    assert body["description"].startswith("BDB 1 is not available: region 1 is ")
    assert "0 ms are tolerated" in body["description"]
    assert await pages.get(LAG + "&availability_lag_tolerance_ms=600000") == (200, None)
    assert await pages.get(PLAIN) == (200, None)
    status, body = await pages.get("/v1/local/bdbs/1/endpoint/availability?extend_check=lag")
    assert (status, body["error_code"]) == (503, "bdb_endpoint_unavailable")


@pytest.mark.parametrize("path", [PLAIN, LAG, "/readyz", "/health"])
async def test_a_region_that_refuses_writes_is_unhealthy(path: str) -> None:
    pages = Pages(make_region(limits=RegionLimits(catch_up_answer_ms_max=1_000)))
    pages.hears(R2)
    status, body = await pages.get(path)
    assert status == 503
    assert "asks region 2, 3 what it missed" in json.dumps(body)
    assert await pages.get("/healthz") == (200, {"alive": True, "fault": None})
    _, bdb = await pages.get("/v1/bdbs/1")
    assert bdb["status"] == "recovery"


async def test_announced_hosts_come_first() -> None:
    pages = Pages(
        make_region(), announce_hosts=("redis.eu.example.org", "192.0.2.7"), announce_port=6379
    )
    _, (bdb,) = await pages.get("/v1/bdbs")
    (endpoint,) = bdb["endpoints"]
    assert endpoint["dns_name"] == "redis.eu.example.org"
    assert endpoint["addr"] == ["redis.eu.example.org", "192.0.2.7", "127.0.0.1", "localhost"]
    assert (endpoint["port"], bdb["port"]) == (6379, 6379)


@pytest.mark.parametrize(
    "host", ["[", "a]b", "[::1", "::1", "a:b:c", "h:99999", "", "\xff", "a@b/c?d"]
)
async def test_requests_for_any_host_are_answered(host: str) -> None:
    status, _ = await Pages(make_region(peers=[2])).get("/v1/bdbs", host=host)
    assert status == 200


@pytest.mark.parametrize("path", [PLAIN, LAG, "/readyz", "/health"])
async def test_a_region_that_answers_late_is_unavailable_and_says_why(path: str) -> None:
    region = make_region(peers=[2])
    region.answer_time.ms_max = 500
    pages = Pages(region)
    assert (await pages.get(path))[0] == 200
    for _ in range(5):
        region.answer_time.note_logged(700_000_000, time.perf_counter_ns())
    status, body = await pages.get(path)
    assert status == 503
    why = "answers take 700 ms here: 0 ms until the event loop comes to a request, 700 ms until the"
    assert why in str(body)
    region.answer_time.ms_max = 0
    assert (await pages.get(path))[0] == 200


async def test_a_refused_change_of_certificates_degrades_the_health_and_names_no_file(
    tmp_path: Path,
) -> None:
    pages, files = Pages(make_region()), NodeFolder(tmp_path)
    files.put_all(make(make_authority()))
    pages.certificates = await Certificates.open(files.paths, Wanted())
    assert (await pages.get("/health"))[1]["degraded"] is None
    files.put("key.pem", make(None).key_pem)
    await pages.certificates.reload()
    status, body = await pages.get("/health")
    # Clients are served.
    assert (status, body["healthy"]) == (200, True)
    assert body["degraded"] == "changed certificate files are not used; the log says why"


async def test_a_revoked_certificate_of_the_node_degrades_its_health(tmp_path: Path) -> None:
    region = make_region()
    pages, files = Pages(region), NodeFolder(tmp_path)
    files.put_all(make(make_authority()))
    pages.certificates = await Certificates.open(files.paths, Wanted())
    own = serial_bytes(pages.certificates.current.serial)
    for serial, told in (
        (b"\x01", None),
        (own, "the certificate was revoked; replace it"),
    ):
        known = apply(founded(2), Revoke(serial, SECONDS_MAX, 0))
        region.membership.members.known = known
        assert (await pages.get("/health"))[1]["degraded"] == told


# --- Active-Active databases ------------------------------------------------------------------

GUID = UID.hex()


async def test_the_database_has_its_regions_as_instances() -> None:
    pages = Pages(make_region())
    status, (crdb,) = await pages.get("/v1/crdbs")
    assert status == 200
    assert (crdb["guid"], crdb["name"]) == (GUID, "crdb")
    assert crdb["local_databases"] == [{"bdb_uid": "1", "id": 1}]
    first, second, third = crdb["instances"]
    assert (first["id"], first["db_uid"]) == (1, "1")
    assert first["cluster"] == {
        "name": "region-1",
        "url": "http://127.0.0.1:8381",
        "replication_endpoint": "127.0.0.1:7381",
    }
    # Files name only the address of the link of another region.
    assert second["cluster"] == {
        "name": "region-2",
        "url": "",
        "replication_endpoint": "region-2",
    }
    assert (third["id"], third["db_uid"], third["db_config"]) == (3, "", {})
    assert await pages.get(f"/v1/crdbs/{GUID}?instance_id=1") == (200, crdb)


async def test_before_the_regions_agree_there_is_no_database() -> None:
    pages = Pages(make_region(folder=FolderState(is_proven=True, database=DatabaseIdentity())))
    assert await pages.get("/v1/crdbs") == (200, [])
    status, refused = await pages.get(f"/v1/crdbs/{GUID}")
    assert (status, refused["error_code"]) == (404, "crdb_not_found")
    assert "none yet" in refused["description"]


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        (f"/v1/crdbs/{'0' * 32}", 404, "crdb_not_found"),
        (f"/v1/crdbs/{'0' * 4000}", 404, "crdb_not_found"),
        (f"/v1/crdbs/{'0' * 32}/health_report", 404, "crdb_not_found"),
        (f"/v1/crdbs/{GUID}?instance_id=2", 404, "instance_not_found"),
        (f"/v1/crdbs/{GUID}?instance_id=x", 400, "invalid_schema"),
        (f"/v1/crdbs/{GUID}?instance_id=1&instance_id=1", 400, "invalid_schema"),
        (f"/v1/crdbs/{GUID}/health_report?instance=1", 400, "invalid_schema"),
        ("/v1/crdbs?instance_id=1", 400, "invalid_schema"),
        (f"/v1/crdbs/{GUID}/updates", 404, "not_found"),
    ],
)
async def test_a_crdb_that_is_asked_for_wrongly_is_refused(
    path: str, status: int, code: str
) -> None:
    pages = Pages(make_region())
    found, refused = await pages.get(path)
    assert (found, refused["error_code"]) == (status, code)
    assert len(refused["description"]) < 300
    assert pages.asked == []


async def test_a_health_report_is_of_all_instances_or_of_one() -> None:
    pages = Pages(make_region())
    for query in ("", "?instance_id=2"):
        status, _ = await pages.get(f"/v1/crdbs/{GUID}/health_report{query}")
        assert status == 200
    assert pages.asked == [None, 2]


@pytest.mark.parametrize("method", ["DELETE", "PATCH", "POST", "PUT"])
@pytest.mark.parametrize("path", ["", "/" + UID.hex(), "/" + UID.hex() + "/health_report"])
async def test_pages_refuse_changes_and_name_the_command(path: str, method: str) -> None:
    pages = Pages(make_region())
    status, body = await pages.get("/v1/crdbs" + path, method=method)
    assert (status, body["error_code"]) == (405, "method_not_allowed")
    assert "crdtstream crdb" in body["description"]
    assert pages.asked == []
