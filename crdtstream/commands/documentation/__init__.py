"""Purpose and syntax of every command: for COMMAND, its clients, and the docs."""
