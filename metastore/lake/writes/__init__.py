"""Writes rows of catalogs' tables: new data files, rewritten data files, and one snapshot for each statement."""
