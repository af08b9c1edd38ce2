"""Metrics of a node for Prometheus: definitions, figures, and the page they make."""
