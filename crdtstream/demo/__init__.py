"""The main job on real input: a year of weather, written in three regions at once."""
