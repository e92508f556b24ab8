"""The components of a metastore: each is a unit and what is special about its rows; the rest they share."""
