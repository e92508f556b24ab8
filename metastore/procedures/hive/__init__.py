"""Procedures on Hive tables: migration to Iceberg and back, and synchronization of partitions."""
