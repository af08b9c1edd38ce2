"""Networks that are slow, cut, or dead without a word; with a real toxiproxy between regions."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from toxiproxy import Proxy, Toxiproxy

from crdtstream.v1 import admin_pb2 as pb
from tests.live.cluster import Cluster, cluster_of
from tests.patience import wait_until


class Proxied:
    """Three regions, each link through a proxy of its own: ``proxies[puller, peer]``."""

    def __init__(self, cluster: Cluster, toxiproxy: Toxiproxy) -> None:
        self.cluster = cluster
        self.proxies: dict[tuple[int, int], Proxy] = {}
        addresses = {}
        for puller in cluster.nodes:
            for peer, node in cluster.nodes.items():
                if peer != puller:
                    proxy = toxiproxy.create(node.grpc_address, f"{puller}-pulls-{peer}")
                    self.proxies[puller, peer] = proxy
                    addresses[puller, peer] = proxy.listen
        cluster.configure(addresses)
        cluster.start()

    def cut_off(self, region: int) -> list[Proxy]:
        """Every link to and from the region, cut."""
        cut = [proxy for link, proxy in self.proxies.items() if region in link]
        for proxy in cut:
            proxy.disable()
        return cut


@pytest.fixture
def proxied(tmp_path: Path, toxiproxy: Toxiproxy) -> Iterator[Proxied]:
    with cluster_of(3, tmp_path) as cluster:
        yield Proxied(cluster, toxiproxy)


def add(cluster: Cluster, count: int = 20) -> None:
    for _ in range(count):
        for node in cluster.nodes.values():
            node.client.xadd("s", {"f": "v"})


def is_up(cluster: Cluster, puller: int, peer: int) -> Callable[[], bool]:
    return lambda: cluster[puller].link(peer).state == pb.LinkStatus.State.UP


@pytest.mark.long
def test_regions_converge_over_a_slow_network(proxied: Proxied) -> None:
    for proxy in proxied.proxies.values():
        proxy.add_toxic(type="latency", attributes={"latency": 100, "jitter": 50})
    add(proxied.cluster)
    proxied.cluster.converge()
    assert proxied.cluster[2].link(1).lag_ms_p50 >= 50


def test_a_region_that_was_cut_off_goes_on_alone_and_converges_after(proxied: Proxied) -> None:
    cluster = proxied.cluster
    add(cluster)
    cluster.converge()
    cut = proxied.cut_off(2)
    wait_until(
        lambda: cluster[2].link(1).state == pb.LinkStatus.State.BACKOFF, "region 2 is cut off"
    )
    add(cluster)
    wait_until(
        lambda: cluster[1].client.xlen("s") == cluster[3].client.xlen("s") == 100, "1 and 3 agree"
    )
    assert cluster[2].client.xlen("s") == 80
    for proxy in cut:
        proxy.enable()
    cluster.converge()
    assert cluster[2].client.xlen("s") == 120


def test_effects_are_relayed_where_the_direct_link_is_cut(proxied: Proxied) -> None:
    cluster = proxied.cluster
    direct = [proxied.proxies[1, 2], proxied.proxies[2, 1]]
    for proxy in direct:
        proxy.disable()
    add(cluster)
    cluster.converge()
    wait_until(lambda: list(cluster[1].link(3).relayed_origins) == [2], "region 3 relays")
    for proxy in direct:
        proxy.enable()
    wait_until(is_up(cluster, 1, 2), "the direct link is back")
    wait_until(lambda: not cluster[1].link(3).relayed_origins, "relaying ends")
    add(cluster)
    cluster.converge()


@pytest.mark.long
def test_a_half_open_connection_is_noticed_and_replaced(proxied: Proxied) -> None:
    """A network that swallows everything without closing: only silence tells."""
    cluster = proxied.cluster
    add(cluster, 1)
    cluster.converge()
    proxy = proxied.proxies[2, 1]
    # timeout 0: data is held back without end, and the connection stays open.
    for stream in ("upstream", "downstream"):
        proxy.add_toxic(type="timeout", stream=stream, attributes={"timeout": 0})
    cluster[1].client.xadd("s", {"f": "v"})
    wait_until(lambda: "silent" in cluster[2].link(1).error, "silence is noticed")
    # Through region 3 the effect comes all the same.
    wait_until(lambda: cluster[2].client.xlen("s") == 4, "relayed")
    for name in list(proxy.toxics()):
        proxy.destroy_toxic(name)
    wait_until(is_up(cluster, 2, 1), "a new connection")
    cluster.converge()


@pytest.mark.long
def test_a_connection_that_breaks_again_and_again_loses_nothing(proxied: Proxied) -> None:
    cluster = proxied.cluster
    # Each connection is closed after this number of bytes.
    for proxy in proxied.proxies.values():
        proxy.add_toxic(type="limit_data", attributes={"bytes": 6_000})
    add(cluster, 150)
    for proxy in proxied.proxies.values():
        for name in list(proxy.toxics()):
            proxy.destroy_toxic(name)
    cluster.converge()
    assert cluster[1].client.xlen("s") == 450
    assert cluster[2].link(1).reconnects > 0


@pytest.mark.long
def test_a_slow_link_costs_disk_not_memory(proxied: Proxied) -> None:
    cluster = proxied.cluster
    proxy = proxied.proxies[2, 1]
    proxy.add_toxic(type="bandwidth", attributes={"rate": 100})
    value = "x" * 10_000
    with cluster[1].client.pipeline(transaction=False) as pipeline:
        for index in range(1_000):
            pipeline.xadd("s", {"f": f"{index}{value}"})
        pipeline.execute()
    # 10 MB, compressed to little: the link is slow, and yet everything comes.
    for name in list(proxy.toxics()):
        proxy.destroy_toxic(name)
    cluster.converge()
    assert cluster[2].client.xlen("s") == 1_000
