"""SCHEMATA, TABLES and VIEWS: one row for each object with a name."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from metastore.components.information_schema.relation import (
    CATALOG,
    LONG,
    MOMENT,
    OWN_SCHEMAS,
    OWN_TABLES,
    TEXT,
    Array,
    SchemaRelation,
    Source,
    Value,
    constant,
    moment,
    own_names,
    row_count,
    same,
    table_names,
)
from metastore.model.vocabulary import MetadataType


def _defining_queries(units: pa.Table) -> Array:
    texts = [
        dict(representations or ()).get(dialect)
        for representations, dialect in zip(
            units["representations"].to_pylist(), units["dialect"].to_pylist(), strict=True
        )
    ]
    return pa.array(texts, TEXT)


SCHEMATA: Final = SchemaRelation(
    "SCHEMATA",
    "Every schema: the workspaces that are configured, those that metadata speaks of, and the metastore's own.",
    {"CATALOG_NAME": TEXT, "SCHEMA_NAME": TEXT, "SCHEMA_OWNER": TEXT, "TYPE": TEXT, "IS_MUTABLE": TEXT},
    (
        Source(
            OWN_SCHEMAS,
            (),
            {
                "CATALOG_NAME": constant(CATALOG),
                "SCHEMA_NAME": same("schemaName"),
                "TYPE": same("type"),
                "IS_MUTABLE": same("mutable"),
            },
        ),
    ),
)

NAMED: Final = {"TABLE_CATALOG": TEXT, "TABLE_SCHEMA": TEXT, "TABLE_NAME": TEXT}

TABLES: Final = SchemaRelation(
    "TABLES",
    "Every table that was analyzed, every view, and the metastore's own tables.",
    {
        **NAMED,
        "TABLE_TYPE": TEXT,
        "TABLE_SOURCE": TEXT,
        "LOCATION": TEXT,
        "NUM_ROWS": LONG,
        "LAST_MODIFIED_TIME": MOMENT,
    },
    (
        Source(
            "tables",
            (MetadataType.TABLE,),
            {
                **table_names("tableName"),
                "TABLE_TYPE": constant("TABLE"),
                "TABLE_SOURCE": same("tableType"),
                "LOCATION": same("location"),
                "NUM_ROWS": row_count(),
                "LAST_MODIFIED_TIME": moment("lastModifiedTime"),
            },
        ),
        Source(
            "views",
            (MetadataType.VIEW,),
            {
                **table_names("name"),
                "TABLE_TYPE": constant("VIEW"),
                "LAST_MODIFIED_TIME": moment("lastModifiedTime"),
            },
        ),
        Source(
            "materialized_views",
            (MetadataType.MATERIALIZED_VIEW,),
            {
                **table_names("name"),
                "TABLE_TYPE": constant("MATERIALIZED_VIEW"),
                "LOCATION": same("dataLocation"),
                "LAST_MODIFIED_TIME": moment("lastModifiedTime"),
            },
        ),
        Source(OWN_TABLES, (), {**own_names(), "TABLE_TYPE": constant("SYSTEM_TABLE")}),
    ),
)

VIEWS: Final = SchemaRelation(
    "VIEWS",
    "Every view and materialized view, with the query that defines it.",
    {**NAMED, "VIEW_DEFINITION": TEXT},
    (
        Source(
            "views",
            (MetadataType.VIEW,),
            {**table_names("name"), "VIEW_DEFINITION": Value(_defining_queries, ("representations", "dialect"))},
        ),
        Source(
            "materialized_views",
            (MetadataType.MATERIALIZED_VIEW,),
            {**table_names("name"), "VIEW_DEFINITION": same("sql")},
        ),
    ),
)
