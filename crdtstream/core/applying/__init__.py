"""What each effect and each local change does, and how a batch of them is applied."""
