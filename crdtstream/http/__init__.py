"""The HTTP port: health and lag of a node, for load balancers, clients and people."""
