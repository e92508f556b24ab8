"""The metadata of Iceberg tables: metadata tables, such as ``t$snapshots``, and the versions of a table."""

from metastore.lake.inspection.tables import METADATA_TABLES, metadata_table
from metastore.lake.inspection.versions import resolve_version

__all__ = ["METADATA_TABLES", "metadata_table", "resolve_version"]
