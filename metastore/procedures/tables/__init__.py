"""Procedures on a table's registration, location, properties, statistics and manifests."""
