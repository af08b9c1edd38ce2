"""A region's state on disk: parts, their images, and which of them changed."""
