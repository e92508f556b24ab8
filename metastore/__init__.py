"""Apache Drill's Iceberg metastore for Python and Spark."""
