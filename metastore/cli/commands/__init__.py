"""The work of each command: plain functions from a session and arguments to a result. No printing, no parsing."""
