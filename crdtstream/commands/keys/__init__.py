"""Commands for any key."""
