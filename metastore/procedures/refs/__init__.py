"""Snapshots, branches and tags."""
