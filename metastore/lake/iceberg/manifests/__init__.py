"""Manifests and manifest lists: read, written, compared."""
