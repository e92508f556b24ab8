"""Pruning: decides from statistics and a predicate what a query must read, with the reason for each decision. Pure."""
