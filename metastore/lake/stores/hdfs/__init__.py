"""HDFS by WebHDFS."""
