"""Members of the database, and how their changes are decided; without any IO."""
