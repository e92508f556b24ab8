"""Benchmarks: one question a file, this metastore beside its peers in one process."""
