"""Iceberg views: export to and import from a catalog that supports them.

PyIceberg 0.12 creates, loads and drops views in REST catalogs only; its other catalogs report that they have none, and
the error here says so. An Iceberg view keeps its query in any number of dialects, and its columns with their types. So
a column of unknown type must be cast first.

Tables have other names in another catalog: ``tables`` maps full names to full names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from pyiceberg.catalog import Catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchViewError, ViewAlreadyExistsError
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)
from pyiceberg.view import View
from pyiceberg.view.metadata import SQLViewRepresentation, ViewRepresentation, ViewVersion
from sqlglot import exp

from metastore.errors import InvalidRequestError, MetastoreError, NotFoundError, StorageError
from metastore.lake.iceberg.catalogs.catalog_errors import error_text, failures_of, of_a_catalog
from metastore.model.drill_types import parse_type
from metastore.model.identity import TableInfo
from metastore.model.tuple_schema import TIME_ZONE, SchemaColumn, TupleSchema
from metastore.model.view_unit import ViewMetadataUnit
from metastore.sql.views.definition import Definition
from metastore.sql.views.references import info_of, references, replace_table, table_named
from metastore.sql.views.text import DEFAULT_DIALECT, parse_query

_COMMENT: Final = "comment"
_TYPES: Final[Mapping[str, IcebergType]] = {
    "BOOLEAN": BooleanType(),
    "TINYINT": IntegerType(),
    "SMALLINT": IntegerType(),
    "INT": IntegerType(),
    "BIGINT": LongType(),
    "UINT1": IntegerType(),
    "UINT2": IntegerType(),
    "UINT4": LongType(),
    "FLOAT": FloatType(),
    "DOUBLE": DoubleType(),
    "VARCHAR": StringType(),
    "VARBINARY": BinaryType(),
    "DATE": DateType(),
    "TIME": TimeType(),
    "TIMESTAMP": TimestampType(),
}


def export_view(
    unit: ViewMetadataUnit,
    catalog: Catalog,
    identifier: str,
    *,
    tables: Mapping[str, str],
    replace: bool,
    now_ms: int,
) -> View:
    """Create the Iceberg view ``identifier`` of ``catalog`` from ``unit``, in all dialects that are stored.

    ``replace`` drops an existing view first; the two steps are not atomic. Raises InvalidRequestError for a catalog
    without views, a name that is taken, a column of unknown type, and a table in ``tables`` that the view does not
    read; NotFoundError for a namespace that does not exist; StorageError; OutcomeUnknownError.
    """
    path = tuple(unit.workspace_schema_path or ())
    texts = {d: _rename_tables(sql, d, path, tables) for d, sql in (unit.representations or {}).items()}
    schema = _schema(unit)
    namespace = tuple(identifier.split(".")[:-1])
    version = ViewVersion(
        schema_id=schema.schema_id,
        timestamp_ms=now_ms,
        summary={"engine-name": "metastore"},
        representations=[
            ViewRepresentation(SQLViewRepresentation(type="sql", sql=sql, dialect=dialect))
            for dialect, sql in texts.items()
        ],
        default_namespace=namespace,
    )
    properties = {**(unit.properties or {}), **({_COMMENT: unit.comment} if unit.comment is not None else {})}
    known = (NoSuchNamespaceError, NoSuchViewError, ViewAlreadyExistsError)
    with _errors(catalog, identifier), failures_of(f"catalog {catalog.name}", *known, changing=True):
        if replace and catalog.view_exists(identifier):
            catalog.drop_view(identifier)
        return catalog.create_view(identifier, schema, version, properties=properties)


def import_view(catalog: Catalog, identifier: str, *, dialects: Sequence[str], tables: Mapping[str, str]) -> Definition:
    """Returns the definition of the Iceberg view ``identifier``, by its text in the first of ``dialects`` that it has.

    If it has none of them, any of its texts is used. ``tables`` maps the table names in its text to names here. Raises
    NotFoundError, InvalidRequestError for a catalog without views, StorageError.
    """
    with _errors(catalog, identifier):
        view = catalog.load_view(identifier)
    version = view.current_version()
    texts = {each.root.dialect.lower(): each.root.sql for each in version.representations}
    dialect = next((wanted for wanted in dialects if wanted in texts), next(iter(texts)))
    parts = [version.default_catalog] if version.default_catalog else []
    path = (*parts, *version.default_namespace)
    properties = dict(view.properties)
    fields = view.schema().fields
    comments = {field.name: field.doc for field in fields if field.doc}
    return Definition(
        _rename_tables(texts[dialect], dialect, path, tables, complete=False),
        dialect,
        # Spark keeps a view's list of columns only there, not in the text.
        columns=[field.name for field in fields],
        comment=properties.pop(_COMMENT, None),
        column_comments=comments,
        properties=properties,
        schema_path=path if len(path) > 1 else (),
    )


def list_views(catalog: Catalog, namespace: str) -> list[str]:
    """Returns the names of the views in a namespace. Raises as :func:`import_view`."""
    with _errors(catalog, namespace):
        return sorted(".".join(name) for name in catalog.list_views(namespace))


def _rename_tables(
    sql: str, dialect: str, path: Sequence[str], tables: Mapping[str, str], *, complete: bool = True
) -> str:
    """Returns ``sql`` with the tables renamed; with ``complete``, all other tables get their full names."""
    tree = parse_query(sql, dialect)
    changed = False
    for table in list(references(tree)):
        parts = [part.name for part in table.parts]
        full = str(info_of(table, path)) if len(parts) + len(path) > 2 else ".".join((*path, *parts))
        to = tables.get(full) or tables.get(".".join(parts))
        if to is None and not (complete and len(parts) < 3):
            continue
        changed = True
        renamed = _table_expression(to) if to is not None else table_named(TableInfo.parse(full))
        replace_table(table, renamed)
    return tree.sql(dialect) if changed else sql


def _table_expression(name: str) -> exp.Table:
    *above, last = [exp.to_identifier(part, quoted=True) for part in name.split(".")]
    if len(above) > 2:
        raise InvalidRequestError(f"{name} has more than the three parts catalog.namespace.table")
    return exp.Table(this=last, db=above[-1] if above else None, catalog=above[0] if len(above) > 1 else None)


def _schema(unit: ViewMetadataUnit) -> Schema:
    columns = TupleSchema.from_json(unit.schema or "{}").columns
    comments = unit.column_comments or {}
    return Schema(
        *(
            NestedField(number, column.name, _type(unit, column), required=False, doc=comments.get(column.name))
            for number, column in enumerate(columns, start=1)
        )
    )


def _type(unit: ViewMetadataUnit, column: SchemaColumn) -> IcebergType:
    type_ = parse_type(column.type)
    if type_.name == "DECIMAL" and len(type_.arguments) == 2:
        return DecimalType(*type_.arguments)
    if type_.name == "TIMESTAMP" and column.properties.get(TIME_ZONE) == "UTC":
        return TimestamptzType()
    if type_.name not in _TYPES:
        raise InvalidRequestError(
            f"column {column.name} of view {unit.info} has the type {column.type}, for which Iceberg views have no "
            "word here; cast it"
        )
    return _TYPES[type_.name]


@contextmanager
def _errors(catalog: Catalog, identifier: str) -> Iterator[None]:
    """Turns a catalog's errors into this package's; one that no catalog raises passes unchanged."""
    try:
        yield
    except NotImplementedError as error:
        raise InvalidRequestError(
            f"catalog {catalog.name} holds no views: PyIceberg serves those of REST catalogs"
        ) from error
    except ViewAlreadyExistsError as error:
        raise InvalidRequestError(f"view {identifier} exists already in catalog {catalog.name}") from error
    except (NoSuchViewError, NoSuchNamespaceError) as error:
        raise NotFoundError(f"catalog {catalog.name} has no {identifier}: {error_text(error)}") from error
    except MetastoreError:
        raise
    except Exception as error:
        if not of_a_catalog(error):
            raise
        raise StorageError(f"catalog {catalog.name} failed at view {identifier}: {error_text(error)}") from error


DIALECTS: Final = (DEFAULT_DIALECT, "trino", "presto")
"""Dialects of an Iceberg view in the order of preference, if the caller names none."""
