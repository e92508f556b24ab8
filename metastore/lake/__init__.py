"""The lake below the metastore: stores, file formats, Iceberg tables, their rows. Nothing here knows the metastore."""
