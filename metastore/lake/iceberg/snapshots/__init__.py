"""Snapshots: what a commit changes and what it requires."""
