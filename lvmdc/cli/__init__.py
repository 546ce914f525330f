"""The commands: what scripts/*.py call."""
