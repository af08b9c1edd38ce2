"""The load: clients as applications write them, in a process of their own."""
