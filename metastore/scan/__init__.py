"""Scans: the rows of a table through its metadata, whatever reads them, and the ids that name rows."""
