"""The daemon: one process that keeps the tables of a deployment in shape, by policy."""
