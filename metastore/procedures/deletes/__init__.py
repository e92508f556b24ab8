"""Delete files that are written anew in another form: no row changes, and no data file is written."""
