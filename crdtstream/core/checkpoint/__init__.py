"""What a region's state is on disk: parts, their images, and which of them changed."""
