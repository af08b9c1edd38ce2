"""Effects that this region issues: the batch and the section of a tick that are being filled."""
