"""Regions in one process: replicas, and a network, clocks and disks that do as a seed says."""
