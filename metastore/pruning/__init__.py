"""Pruning, pure: statistics and a predicate -> what must be read, and the reason for each decision."""
