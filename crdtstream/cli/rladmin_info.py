"""Lists of ``rladmin info``: keys that Redis Enterprise documents, then those of our own.

A documented key that has a meaning here comes first, in the documented order, with what is true
of a region; the others are left out, as a value would claim that it can be tuned.
"""

import time
from typing import Final

from crdtstream.cli.rladmin_tables import Cluster, tunable
from crdtstream.cli.rladmin_values import Seconds, Size, Value
from crdtstream.cli.status import keeping_word
from crdtstream.core.ids import RegionId
from crdtstream.v1 import admin_pb2 as pb

# As the node describes values of such tunables.
_MEMORY_VALUE: Final = "a memory value"


def about_cluster(cluster: Cluster) -> dict[str, Value]:
    reply = cluster.reply
    version = tunable(reply, "redis-version")
    return {
        "shards_overbooking": False,
        "default_non_sharded_proxy_policy": "all-nodes",
        "default_shards_placement": "dense",
        "default_provisioned_redis_version": version and version.rpartition(".")[0],
        "max_simultaneous_backups": 1,
        "slave_ha": False,
        "data_internode_encryption": _is_encrypted(cluster),
        "http support": bool(reply.http_address),
        "upgrade mode": False,
        ("cnm_https_port" if reply.http_tls else "cnm_http_port"): _port(reply.http_address),
        "database": reply.database_id,
        "database_uid": reply.database_uid or None,
        "regions": " ".join(map(str, cluster.nodes)),
        "version": reply.version,
    }


def about_node(cluster: Cluster, node: RegionId) -> dict[str, Value]:
    """A region as its machine has it; keys with blanks are those of Redis Enterprise."""
    reply = cluster.found.replies[node]
    return {
        "address": cluster.found.addresses[node].rpartition(":")[0],
        "external addresses": None,
        "recovery path": None,
        "quorum only": False,
        "max redis servers": 1,
        "max listeners": 1,
        "name": cluster.names.get(node) or f"region-{node}",
        "endpoint": reply.resp_address,
        "grpc address": reply.grpc_address,
        "http address": reply.http_address,
        "version": reply.version,
        "pid": reply.pid,
        "started": _moment(reply.started_ms),
        "clients": reply.clients,
        "used memory": Size(reply.storage.used_memory),
        "maxmemory": Size(reply.storage.maxmemory),
        "used disk": Size(reply.storage.disk_bytes),
        "maxdisk": Size(reply.storage.maxdisk),
        "fault": reply.fault or None,
    }


def about_database(cluster: Cluster, node: RegionId) -> dict[str, Value]:
    """The database as one region has it: documented keys, then tunables and figures by name."""
    reply = cluster.found.replies[node]
    backlog = tunable(reply, "replication_backlog_size")
    own: dict[str, Value] = {one.name: _typed(one) for one in reply.tunables}
    own |= {
        "region": reply.region,
        "keys": reply.keys,
        "clients": reply.clients,
        "log_size": Size(reply.log_bytes),
        "effects_issued": reply.effects_issued,
        "version": reply.version,
    }
    own |= {f"log_kept_for_{kept.region}": keeping_word(kept) for kept in reply.storage.kept}
    return {
        "crdt_repl_backlog": None if backlog is None else Size(backlog),
        "master_persistence": True,
        "oss_cluster": False,
        "slave_ha": False,
        "mkms": True,
        "oss_sharding": False,
        "data_internode_encryption": _is_encrypted(cluster),
        "proxy_policy": "all-nodes",
        "resp3": True,
        **dict(sorted(own.items())),
        # Documented as the last one: a region has one process that pulls from the others.
        "syncer_mode": "centralized",
    }


def _typed(one: pb.Tunable) -> Value:
    """The value of a tunable with its unit, which the node sends as a text."""
    if not one.value.isdecimal():
        return one.value
    if list(one.allowed) == [_MEMORY_VALUE]:
        return Size(one.value)
    return Seconds(one.value) if one.name.endswith("_s") else int(one.value)


def _is_encrypted(cluster: Cluster) -> bool:
    """True if the gRPC port, by which peers come, speaks mutual TLS: it has just been asked."""
    return cluster.found.login.certificates is not None


def _port(address: str) -> Value:
    port = address.rpartition(":")[2]
    return int(port) if port else None


def _moment(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(ms / 1000))
