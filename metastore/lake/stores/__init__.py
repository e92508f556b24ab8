"""Access to files on the local disk, object stores and HDFS: list, read, write, delete."""
