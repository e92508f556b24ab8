"""``publications`` lists the published tables: what each publishes, since when, and whether it is behind its source.

Place in the flow: for operators and alerts. It reads metadata and headers of manifests; no data file, and no manifest
of a table that was published from the newest version of the metastore.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from itertools import chain
from typing import Any, Final

import pyarrow as pa
from pyiceberg.table import Table

from metastore.components.catalogs import Catalogs
from metastore.config.catalogs import OWN_CATALOG
from metastore.errors import MetastoreError
from metastore.lake.iceberg.manifests.manifest_reader import read_list
from metastore.procedures.files.guards import PUBLISHED
from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.model import CallContext, columns
from metastore.procedures.publishing.difference import changed_segments
from metastore.procedures.publishing.published_table import VERSION, live, segments_of
from metastore.procedures.publishing.stored_table import StoredTable
from metastore.sources.naming import resolve

RESULT: Final = columns(
    published_as=pa.string(),
    table=pa.string(),
    state=pa.string(),
    published_at=pa.timestamp("ms", "UTC"),
    files=pa.int64(),
    changed_segments=pa.int64(),
    message=pa.string(),
)
"""``state`` is ``current``, ``behind``, ``foreign`` or ``unknown``."""


@procedure(result=RESULT)
def publications(context: CallContext, *, catalog: str | None = None) -> Iterator[Mapping[str, Any]]:
    """Lists the published tables of a catalog, or of all; run ANALYZE first to see what has changed in the folders."""
    if catalog is not None:
        return _of_catalog(context.catalogs, catalog)
    names = (name for name in context.catalogs.names() if name != OWN_CATALOG)
    return chain.from_iterable(_rows_or_reason(context.catalogs, name) for name in names)


def _rows_or_reason(catalogs: Catalogs, catalog: str) -> Iterator[Mapping[str, Any]]:
    """Yields the rows of a catalog; one with the reason if it does not answer, so that the others are listed."""
    try:
        yield from _of_catalog(catalogs, catalog)
    except MetastoreError as error:
        yield {**dict.fromkeys(RESULT.names), "published_as": catalog, "state": "unknown", "message": str(error)}


def _of_catalog(catalogs: Catalogs, catalog: str) -> Iterator[Mapping[str, Any]]:
    for schema in catalogs.schemas(catalog):
        for name in catalogs.tables(catalog, schema):
            row = dict.fromkeys(RESULT.names) | {"published_as": f"{catalog}.{schema}.{name}"}
            try:
                table = catalogs.target(catalog, schema, name).load()
                if (source := table.metadata.properties.get(PUBLISHED)) is not None:
                    yield {**row, "table": source, **_Publication(catalogs, table, source).facts()}
            except MetastoreError as error:
                yield {**row, "state": "unknown", "message": str(error)}


@dataclass(frozen=True)
class _Publication:
    catalogs: Catalogs
    table: Table
    source: str

    def facts(self) -> Mapping[str, Any]:
        """Returns the columns that compare the table with its source."""
        snapshot = self.table.metadata.current_snapshot()
        if snapshot is None or snapshot.summary is None or snapshot.summary[VERSION] is None:
            again = f"publish {self.source} again with replace => true"
            return {"state": "foreign", "message": f"another program has written the newest snapshot: {again}"}
        facts = {
            "published_at": datetime.fromtimestamp(snapshot.timestamp_ms / 1000, timezone.utc),
            "files": int(snapshot.summary["total-data-files"] or 0),
        }
        metastore = self.catalogs.metastore
        info = resolve(metastore.settings.storage, self.source).table
        stored = StoredTable.of(metastore.tables, info, metastore.tables.metadata.version)
        if stored is None:
            again = f"run: metastore analyze {info}"
            return {**facts, "state": "unknown", "message": f"{info} has no metadata any more; {again}"}
        changed = 0
        if snapshot.summary[VERSION] != str(stored.version):
            manifests = live(read_list(self.table.io, snapshot.manifest_list))
            changed = len(changed_segments(segments_of(self.table.io, manifests), stored.segments))
        state, message = ("behind", "publish it again") if changed else ("current", "")
        return {**facts, "state": state, "changed_segments": changed, "message": message}
