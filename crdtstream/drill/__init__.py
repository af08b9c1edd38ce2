"""Failover drills: a fault is made, real clients go on, and their records say what they saw.

    drill file ──> parse ──> Drill ──> runner ──┬─> deployment   nodes, proxies      (faults)
                                                ├─> load         clients, another process (records)
                                                └─> sampling     lag, memory, alerts (samples)
                                   records ──> verdict ──> Run ──> report

The verdict is a function of the clients' records, which are made outside the nodes: a node's own
figures never acquit it.
"""
