"""The proof that files of Iceberg tables may be deleted, and the lists of files that it needs."""
