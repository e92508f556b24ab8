"""Adds existing files to a table."""
