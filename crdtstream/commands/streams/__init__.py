"""Commands that write and read streams."""
