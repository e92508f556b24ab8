"""ANALYZE: builds a table's metadata units from the footers of its files, and only for what has changed."""
