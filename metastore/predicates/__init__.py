"""Conditions: parsed from text once, and translated for pruning, Arrow, DuckDB, Iceberg and Spark."""
