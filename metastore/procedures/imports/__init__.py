"""Files that lie somewhere already become a table's."""
