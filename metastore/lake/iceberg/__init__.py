"""Iceberg in general, for own and foreign tables: Avro, manifests, catalogs, version files, snapshots, expiration."""
