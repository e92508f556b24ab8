"""ORC: tails, statistics, times."""
