"""What is Iceberg and not ours alone: Avro, manifests, catalogs, version files, snapshots, the sweep."""
