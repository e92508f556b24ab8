"""Procedures on the files of Iceberg tables: what goes, what is an orphan, what is taken in, and what stands where."""
