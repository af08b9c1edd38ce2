"""Two states made one: another region's checkpoint is merged into this region's state."""
