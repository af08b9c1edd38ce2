"""XADD over TLS beside XADD without it, at one region and at redis-server.

Each server has both ports, and one certificate of ECDSA P-256 is for all.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final

from benchmarks.generators import xadds
from benchmarks.measured import in_turns
from benchmarks.parts.part import OURS, Found, Options, Part
from benchmarks.parts.xadd import KEY, REQUESTS
from benchmarks.processes import HOST, free_ports
from benchmarks.systems import System, redis_servers, regions, scratch, started
from crdtstream.core.ids import RegionId
from crdtstream.local.certificates import make_certificates, settings_of

FSYNC: Final = "everysec"
PLAIN: Final = "plain"
REGION: Final = RegionId(1)


def run(options: Options) -> Found:
    with scratch() as folder:
        make_certificates(folder, [REGION], database_id="crdb", host=HOST)
        files = {name: str(path) for name, path in settings_of(folder, REGION).items()}
        certificate, key, ca = (files[f"tls_{name}_file"] for name in ("cert", "key", "ca_cert"))
        ports = {"Redis": free_ports(1), OURS: free_ports(1)}
        starters = {
            "Redis": redis_servers(
                FSYNC,
                options=(
                    *("--tls-port", str(ports["Redis"]), "--tls-auth-clients", "no"),
                    *("--tls-cert-file", certificate, "--tls-key-file", key),
                    *("--tls-ca-cert-file", ca),
                ),
            ),
            OURS: regions(
                FSYNC,
                settings={
                    "tls_port": ports[OURS],
                    "tls_auth_clients": "no",
                    "tls_cert_file": certificate,
                    "tls_key_file": key,
                    "tls_ca_cert_file": ca,
                },
            ),
        }
        with started(starters) as systems:
            samples = in_turns(
                options.rounds,
                [
                    (
                        f"{name}, -P {pipeline}",
                        way,
                        partial(
                            measure,
                            system,
                            ports[name] if way == "TLS" else system.ports[0],
                            ("--tls", "--cacert", ca) if way == "TLS" else (),
                            pipeline,
                            options.scaled(requests, least=100),
                        ),
                    )
                    for pipeline, requests in REQUESTS.items()
                    for name, system in systems.items()
                    for way in (PLAIN, "TLS")
                ],
            )
    return Found(samples)


def measure(
    system: System, port: int, options: Sequence[str], pipeline: int, requests: int
) -> dict[str, float]:
    """The rate, and the processor time of the server for a message.

    Args:
        options: of redis-benchmark.
    """
    before = system.cpu_seconds()
    found = xadds(port, pipeline=pipeline, requests=requests, key=KEY, options=options)
    spent = system.cpu_seconds() - before
    system.drop(KEY)
    return {
        "rate_per_s": found["rate_per_s"],
        "cpu_us": spent / requests * 1e6,
        "p50_ms": found["p50_ms"],
        "p99_ms": found["p99_ms"],
    }


PART: Final = Part(
    name="tls",
    about="XADD of a small entry by 50 clients of redis-benchmark over TLS 1.3, beside the same"
    " server's port without TLS, appendfsync everysec.",
    reference=PLAIN,
    run=run,
)
