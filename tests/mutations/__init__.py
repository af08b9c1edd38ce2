"""Tests of the tests: bugs that the tests must notice, planted one at a time.

    python -m tests.mutations [--list] [NAME …]

A bug is a line of a file in ``bugs``, which ``edits.py`` finds in the syntax tree.  Bugs that take
more, or change something else than Python, stand in ``in_*.py`` as texts (``mutation.py``).
``planting.py`` plants one in a copy of the tree and runs tests there.
"""
