"""Links between regions: pulling effects from peers, and serving peers that pull."""
