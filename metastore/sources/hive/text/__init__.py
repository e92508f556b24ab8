"""Text files of Hive tables, read as Hive's SerDes read them. Only values that are certain are used."""
