"""Regions for experiments, as processes of this machine, with certificates of their own."""
