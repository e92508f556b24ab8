"""Scans: reading a table's rows through its metadata, and row ids."""
