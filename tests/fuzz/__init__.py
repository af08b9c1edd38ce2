"""Fuzzing: bytes from outside, damaged at random, at every border of a node.

    python -m tests.fuzz list
    python -m tests.fuzz run links --seconds 600
    python -m tests.fuzz again links INPUT

A *surface* (``surface.py``) is one border: a target that takes bytes, valid examples made by code,
and a way to damage them that keeps what is checked first, as checksums, right.  The target fails on
any error that the border does not promise.

``test_fuzz.py`` runs all targets shortly and always with the same inputs; ``make soak`` runs each
for an hour with atheris, which keeps inputs that reach new code.  An input that found a bug stays
in ``found/``, by surface.
"""
