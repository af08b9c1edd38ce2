"""The interface for operators of a node: the admin service and the health pages."""
