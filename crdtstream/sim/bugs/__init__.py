"""The bugs that the simulator must notice, by area."""
