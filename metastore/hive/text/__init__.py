"""Text files of Hive tables, read as Hive's SerDes read them: what is certain of their values, and nothing else."""
