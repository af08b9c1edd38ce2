"""The machine and the process: time, randomness, memory, open files."""
