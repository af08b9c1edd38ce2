"""The clients that people have, unchanged, against a real node over a real socket."""
