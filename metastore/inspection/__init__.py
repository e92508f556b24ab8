"""What an Iceberg table says of itself: metadata tables, as ``t$snapshots``, and the versions that it has had."""

from metastore.inspection.tables import METADATA_TABLES, metadata_table
from metastore.inspection.versions import resolve_version

__all__ = ["METADATA_TABLES", "metadata_table", "resolve_version"]
