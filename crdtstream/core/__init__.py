"""The CRDT: a pure function of its inputs.  Imports nothing that does IO."""
