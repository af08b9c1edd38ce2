"""What a region has made durable: the log, in one folder."""
