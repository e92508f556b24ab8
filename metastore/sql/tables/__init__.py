"""Statements about tables: CREATE, ALTER, DROP, SHOW."""
