"""What operators ask of a node: the admin service and the health pages."""
