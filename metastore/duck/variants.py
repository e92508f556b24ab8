"""Variants in DuckDB: which release has them, and their texts for people.

Place in the flow: tables give variants as structs of bytes with a label (:mod:`metastore.duck.logical_types`), and
DuckDB returns them so. A caller gets texts in JSON.
"""

from __future__ import annotations

from datetime import timezone

import pyarrow as pa

from metastore.duck.session import connection, judges_arrow, relation
from metastore.lake.formats.variant_arrays import VariantArrowType, is_labelled


def reads_variants() -> bool:
    """Whether DuckDB is there in a release that reads variants from Arrow: release 2."""
    return judges_arrow()


def with_texts(rows: pa.Table) -> pa.Table:
    """Returns ``rows`` with texts in JSON in each column that is, or contains, a variant."""
    variants = [isinstance(field.type, VariantArrowType) or is_labelled(field) for field in rows.schema]
    if not any(variants):
        return rows
    columns = [f"c{place}" for place in range(len(variants))]  # names of a query may occur twice
    texts = [
        f"CAST(CAST({name} AS JSON) AS VARCHAR)" if is_variant else name
        for name, is_variant in zip(columns, variants, strict=True)
    ]
    made: pa.Table = (
        relation(connection(timezone.utc), rows.rename_columns(columns)).project(", ".join(texts)).to_arrow_table()
    )
    return made.rename_columns(rows.column_names)
