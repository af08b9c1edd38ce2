"""The console of real nodes: it asks the other regions as regions ask each other."""

import re
import ssl
import urllib.request
from functools import partial
from pathlib import Path
from urllib.parse import urlencode

import pytest
import redis

from crdtstream.local.regions import LocalRegions
from tests.conftest import free_base_port
from tests.live.cluster import running_regions
from tests.live.test_joining import Joiner
from tests.patience import seconds, wait_until

pytestmark = [pytest.mark.live, pytest.mark.long]


def state_of(
    address: str, region: int, *, scheme: str = "http", authority: ssl.SSLContext | None = None
) -> str:
    """State of a region on the overview of a node."""
    page = f"{scheme}://{address}/"
    with urllib.request.urlopen(page, timeout=seconds(), context=authority) as answer:
        text = answer.read().decode()
    found = re.search(rf'data-cell="region\.{region}\.state" data-state="([^"]*)"', text)
    assert found is not None
    return found[1]


def asked_and_sent(address: str, path: str) -> tuple[str, str]:
    """Have a page ask, and send its form; the answer is the outcome's page and its address."""
    with urllib.request.urlopen(f"http://{address}{path}", timeout=seconds()) as answer:
        proof = re.search(r'name="proof" value="([^"]*)"', answer.read().decode())
    assert proof is not None
    form = urllib.request.Request(
        f"http://{address}{path}",
        data=urlencode({"proof": proof[1]}).encode(),
        headers={"Origin": f"http://{address}"},
    )
    with urllib.request.urlopen(form, timeout=seconds()) as answer:
        return str(answer.read().decode()), str(answer.url)


def test_a_removal_that_is_not_done_when_the_node_stops_is_not_known(tmp_path: Path) -> None:
    with running_regions(3, tmp_path) as cluster:
        cluster.converge()
        # Region 3 gets nothing any more, and the removal waits for it.
        cluster[3].set_links(paused=True)
        cluster[2].client.xadd("orders", {"f": "v"})
        address = f"127.0.0.1:{cluster[1].http_port}"
        page, _ = asked_and_sent(address, "/console/act/remove?region=2")
        assert 'data-state="being done"' in page
        assert cluster[1].end() == 0
        acted = [line for line in cluster[1].log.read_text().splitlines() if "console act" in line]
        assert "the console acts for a user" in acted[0]
        assert "outcome='not known'" in acted[-1]
        assert "The node stopped before it was done" in acted[-1]


def test_a_region_that_is_added_joins_with_the_token_that_the_page_shows(tmp_path: Path) -> None:
    with running_regions(2, tmp_path) as cluster:
        cluster.converge()
        cluster[1].client.xadd("orders", {"f": "v"})
        joiner = Joiner(tmp_path, region=3)
        node = joiner.node
        new = {
            "name": "eu",
            "grpc": node.grpc_address,
            "resp": f"{node.host}:{node.resp_port}",
            "http": f"{node.host}:{node.http_port}",
        }
        page, outcome = asked_and_sent(
            f"127.0.0.1:{cluster[1].http_port}", f"/console/act/add?{urlencode(new)}"
        )
        assert "Region 3 may join." in page
        (token,) = re.findall(r"<code>([0-9a-f]{64})</code>", page)
        assert f"crdtstream node --join {cluster[1].grpc_address} --token-file" in page
        joiner.token.write_text(f"{token}\n")
        joiner.token.chmod(0o600)
        try:
            joiner.launch(cluster[1])
            joiner.wait_until_active(cluster[2])
            assert node.client.xlen("orders") == 1
            with urllib.request.urlopen(outcome, timeout=seconds()) as answer:
                page = answer.read().decode()
            assert "Its node has joined." in page
            assert token not in page
        finally:
            joiner.kill()
        assert token not in cluster[1].log.read_text()


def test_regions_with_mutual_tls_show_each_other(tmp_path: Path) -> None:
    local = LocalRegions(2, tmp_path / "data", base_port=free_base_port(2), tls=True)
    try:
        local.start_all()
        assert local.wait_until_healthy()
        own = tmp_path / "data" / "certificates" / "operator-up"
        ca = own / "ca.pem"
        shown = partial(state_of, scheme="https", authority=ssl.create_default_context(cafile=ca))
        first, second = (region.http_address for region in local.regions)
        wait_until(lambda: shown(first, 2) == "ok", "region 1 shows region 2")
        wait_until(lambda: shown(second, 1) == "ok", "region 2 shows region 1")
        client = redis.Redis(
            port=local.regions[0].resp_port,
            ssl=True,
            ssl_ca_certs=str(ca),
            ssl_certfile=str(own / "cert.pem"),
            ssl_keyfile=str(own / "key.pem"),
        )
        with client:
            client.xadd("orders", {"f": "v"})
            client.xgroup_create("orders", "billing", id="0")
        page = f"https://{first}/console/pending?key=orders&group=billing"

        def rows() -> int:
            with urllib.request.urlopen(
                page, timeout=seconds(), context=ssl.create_default_context(cafile=ca)
            ) as answer:
                text: str = answer.read().decode()
            progress = text.partition("Progress of the regions")[2].partition("</table>")[0]
            return progress.count("<tr") - 1

        wait_until(lambda: rows() == 2, "region 1 shows the progress of both")
    finally:
        local.stop_all()
        local.close()


def test_a_region_that_is_gone_is_told_with_the_reason(tmp_path: Path) -> None:
    with running_regions(2, tmp_path) as cluster:
        address = f"127.0.0.1:{cluster[1].http_port}"
        wait_until(lambda: state_of(address, 2) == "ok", "it is there")
        cluster[2].end()
        wait_until(lambda: state_of(address, 2) == "no answer", "it is gone")
        with urllib.request.urlopen(f"http://{address}/", timeout=seconds()) as answer:
            text = answer.read().decode()
        assert "CrdtstreamRegionDown" in text
        assert "CrdtstreamRegionIsolated" in text
        assert cluster[2].grpc_address in text
