"""``make demo``: real data from ANALYZE to a pruned Spark query, with every claim checked as it is made."""
