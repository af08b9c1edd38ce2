"""``python -m benchmarks``: the throughput of XADD beside redis-server's."""

from benchmarks.xadd import main

main()
