"""All tables of INFORMATION_SCHEMA, and rows that come from no unit: schemas, and the metastore's own tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa

from metastore.components.information_schema.columns import COLUMNS
from metastore.components.information_schema.pieces import FILES, PARTITIONS, ROW_GROUPS
from metastore.components.information_schema.relation import DOUBLE, FLAG, INT, LONG, MOMENT, TEXT, SchemaRelation
from metastore.components.information_schema.tables import SCHEMATA, TABLES, VIEWS
from metastore.config.plugins import StoragePluginSettings
from metastore.errors import NotFoundError
from metastore.model.fields import Unit
from metastore.model.mapping.arrow import plain_arrow_schema
from metastore.model.tuple_schema import SchemaColumn, TupleSchema

RELATIONS: Final[Mapping[str, SchemaRelation]] = {
    each.name: each for each in (SCHEMATA, TABLES, COLUMNS, PARTITIONS, FILES, ROW_GROUPS, VIEWS)
}

NAME: Final = "information_schema"
"""The schema's own name, as in its rows; SQL ignores the case."""

COMPONENTS_NAME: Final = "metastore.components"
"""The schema of the components' tables."""

_TYPES: Final = {TEXT: "VARCHAR", LONG: "BIGINT", INT: "INT", DOUBLE: "DOUBLE", FLAG: "BOOLEAN", MOMENT: "TIMESTAMP"}


def relation(name: str) -> SchemaRelation:
    """Returns the relation ``name``, ignoring case. Raises NotFoundError, which lists all."""
    found = RELATIONS.get(name.upper())
    if found is None:
        raise NotFoundError(f"INFORMATION_SCHEMA has no table {name}; its tables are {', '.join(RELATIONS)}")
    return found


def own_tables(components: Mapping[str, type[Unit]]) -> pa.Table:
    """Returns the metastore's own tables, as units with schemas like those of other tables."""
    tables = [(NAME, each.name, each.schema) for each in RELATIONS.values()]
    tables += [(COMPONENTS_NAME, name, plain_arrow_schema(unit)) for name, unit in components.items()]
    return pa.table(
        {
            "schemaName": [schema for schema, _, _ in tables],
            "tableName": [name for _, name, _ in tables],
            "schema": [_tuple_schema(columns) for _, _, columns in tables],
        }
    )


def schemas(storage: Mapping[str, StoragePluginSettings], known: Iterable[tuple[str, str]]) -> pa.Table:
    """Returns every schema: workspaces of enabled plugins, ``known`` pairs of plugin and workspace, and its own."""
    rows = {
        f"{plugin.name}.{workspace.name}": ("file", workspace.writable)
        for plugin in storage.values()
        if plugin.enabled
        for workspace in plugin.workspaces.values()
    }
    for pair in known:
        rows.setdefault(".".join(pair), ("file", False))
    rows |= {NAME: ("ischema", False), COMPONENTS_NAME: ("metastore", False)}
    return pa.table(
        {
            "schemaName": pa.array(sorted(rows), TEXT),
            "type": pa.array([kind for _, (kind, _) in sorted(rows.items())], TEXT),
            "mutable": pa.array(["YES" if mutable else "NO" for _, (_, mutable) in sorted(rows.items())], TEXT),
        }
    )


def _tuple_schema(columns: pa.Schema) -> str:
    return TupleSchema(tuple(SchemaColumn(field.name, _type(field.type)) for field in columns)).to_json()


def _type(type_: pa.DataType) -> str:
    if isinstance(type_, pa.ListType):
        return f"ARRAY<{_type(type_.value_type)}>"
    if isinstance(type_, pa.MapType):
        return f"MAP<{_type(type_.key_type)}, {_type(type_.item_type)}>"
    return "FLOAT" if type_ == pa.float32() else _TYPES[type_]
