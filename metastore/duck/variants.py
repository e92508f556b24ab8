"""Variants in DuckDB: which release has them, and their texts for people.

Place in the flow: tables give variants as structs of bytes with a label (:mod:`metastore.duck.logical_types`), and
DuckDB returns them so. A caller gets texts in JSON.
"""

from __future__ import annotations

from datetime import timezone

import pyarrow as pa

from metastore.duck.session import connection, judges_arrow, relation
from metastore.ground.quoting import double_quoted
from metastore.lake.formats.variant_arrays import VariantArrowType, is_labelled


def reads_variants() -> bool:
    """Whether DuckDB is there in a release that reads variants from Arrow: release 2."""
    return judges_arrow()


def with_texts(rows: pa.Table) -> pa.Table:
    """Returns ``rows`` with texts in JSON in each column that is, or contains, a variant."""
    names = [
        double_quoted(field.name)
        for field in rows.schema
        if isinstance(field.type, VariantArrowType) or is_labelled(field)
    ]
    if not names:
        return rows
    texts = ", ".join(f"CAST(CAST({name} AS JSON) AS VARCHAR) AS {name}" for name in names)
    made: pa.Table = relation(connection(timezone.utc), rows).project(f"* REPLACE ({texts})").to_arrow_table()
    return made
