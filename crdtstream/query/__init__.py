"""The query service: programs read and write streams in bulk (Spark, mostly)."""
