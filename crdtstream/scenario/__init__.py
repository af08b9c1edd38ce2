"""Scenarios: tables of commands and replies over time and regions, in YAML, run and checked."""
