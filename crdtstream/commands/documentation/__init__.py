"""What every command is for and how it is written: for COMMAND, its clients, and the docs."""
