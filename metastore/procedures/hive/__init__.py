"""Procedures on Hive tables: into Iceberg and back, and their partitions."""
