"""``make demo-s3``: data and metastore on an S3 server of its own, which counts the requests of every question."""
