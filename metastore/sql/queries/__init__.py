"""Queries: what a SELECT reads, and how it is asked of DuckDB."""
