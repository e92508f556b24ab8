"""Catalogs of Iceberg tables, opened by configuration."""
