"""Redis's protocol: clients in, replies out; nothing here knows what a stream command means."""
