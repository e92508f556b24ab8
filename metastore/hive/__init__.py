"""Hive: a Hive Metastore as a source of tables, and the way of such tables into Iceberg."""
