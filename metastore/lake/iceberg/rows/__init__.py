"""Rows of Iceberg tables: what is read, and what deletes take away."""
