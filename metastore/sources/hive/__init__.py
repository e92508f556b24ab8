"""Hive: a Hive Metastore as a source of tables, and the migration of its tables to Iceberg."""
