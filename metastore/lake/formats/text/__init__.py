"""CSV, JSON and other lines of text."""
