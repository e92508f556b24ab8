"""Expiration of old snapshots, and of the files that only they reach."""
