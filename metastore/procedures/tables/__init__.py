"""A table's place, properties, statistics and manifests."""
