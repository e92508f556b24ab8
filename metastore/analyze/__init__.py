"""ANALYZE: from the footers of a table's files to its metadata units, and only for what has changed."""
