"""The vocabulary of the metastore: units, identities, statistics. Independent of Iceberg, Arrow and configuration."""
