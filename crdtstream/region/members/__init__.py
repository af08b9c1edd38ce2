"""The members of a database, and this region's part in changing them."""
