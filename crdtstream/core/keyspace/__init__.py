"""Keys, and when they expire."""
