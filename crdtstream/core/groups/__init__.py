"""Consumer groups: what is replicated of them, and what this region knows."""
