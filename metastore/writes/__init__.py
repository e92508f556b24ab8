"""Writing rows of tables of catalogs: new data files, changed ones written anew, and the one snapshot of a statement."""
