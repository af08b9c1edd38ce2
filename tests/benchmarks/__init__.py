"""The benchmark's own logic, and one small run of it; no test says how fast anything is."""
