"""Links to peers as state machines, without any IO."""
