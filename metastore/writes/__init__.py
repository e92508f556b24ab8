"""Writing rows of tables of catalogs: new data files, changed ones written anew, one snapshot a statement."""
