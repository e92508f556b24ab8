"""The vocabulary of the metastore: units, identities, statistics. Knows no Iceberg, no Arrow, no configuration."""
