"""Regions in one process: the real region and links, and a world that a seed makes misbehave."""
