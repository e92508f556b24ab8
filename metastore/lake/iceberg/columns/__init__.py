"""Columns of Iceberg tables: types, names, values, defaults."""
