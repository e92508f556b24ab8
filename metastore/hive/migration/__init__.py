"""Hive tables into Iceberg, in place: looked at, staged where nothing sees it, and switched in one step."""
