"""Shared by the commands of all programs: options, and how a command ends early."""
