"""Procedures that rewrite delete files in another form. No row changes, and no data file is written."""
