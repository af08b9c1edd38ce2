"""A region as one value, without any IO."""
