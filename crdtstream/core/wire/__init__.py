"""Effects as bytes: for the log and for peers."""
