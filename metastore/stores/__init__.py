"""Where files lie: the local disk, object stores, HDFS; listed, read, written and deleted."""
