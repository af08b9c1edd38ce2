"""Bugs on purpose, and programs that have one, to see that checks notice it.

Each is a slip that a programmer could make, at the place where it would be made.  No installed
program has them: what loses data belongs to tests.  ``python -m tests.planted`` runs the simulator,
drills and single nodes with one of them.
"""
