"""Parquet: footers, statistics, bloom filters, variants."""
