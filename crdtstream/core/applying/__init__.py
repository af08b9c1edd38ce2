"""Applying: the result of each effect and each local change, alone and in a batch."""
