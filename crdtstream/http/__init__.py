"""The HTTP port: whether a node is well and up to date, for load balancers, clients and people."""
