"""Tests of the tests: bugs that the tests must notice, planted one at a time.

    python -m tests.mutations [--list] [NAME …]

``mutation.py`` says what a planted bug is, ``in_*.py`` list them by area, ``planting.py`` plants
one in a copy of the tree and runs tests there.
"""
