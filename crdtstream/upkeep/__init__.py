"""What an operator does with a region's folder: check it, show it, back it up, restore it."""
