"""Conditions: read from text once, and what they mean to pruning, Arrow, DuckDB, Iceberg and Spark."""
