"""``make demo``: shows real data from ANALYZE to a pruned Spark query, and checks every claim."""
