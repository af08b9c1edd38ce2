"""Who is a member of the database, and how a change of that is decided; without any IO."""
