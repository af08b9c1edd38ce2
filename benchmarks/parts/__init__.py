"""The parts of ``make bench``, each a row of the table in docs/performance.md."""
