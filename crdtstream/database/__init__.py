"""Running commands: found, refused, queued, run, and tried again for waiting clients."""
