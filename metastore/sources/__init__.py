"""Where tables lie: a table's name becomes a location, a location becomes a list of data files with fingerprints."""
