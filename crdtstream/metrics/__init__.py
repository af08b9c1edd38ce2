"""What a node tells Prometheus about itself: definitions, figures, and the page they make."""
