"""Upkeep of a region's folder by an operator: check it, show it, back it up, restore it."""
