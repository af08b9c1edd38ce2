"""A region with its clock and its disk: the loop that drives it, and the work beside that loop.

Shells, which clients and peers talk to, stand above it; ``node/`` puts all of them together.
"""
