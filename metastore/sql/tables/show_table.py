"""SHOW statements about one table.

::

    SHOW CREATE TABLE catalog.schema.table
    SHOW COLUMNS {FROM | IN} name [LIKE 'pattern']
    SHOW STATS FOR {name | (query)}
    SHOW PARTITIONS catalog.schema.table
    SHOW TBLPROPERTIES catalog.schema.table [('key')]

They read metadata and no data file, but SHOW STATS FOR a query, which runs it. SHOW COLUMNS and SHOW STATS take any
table or view. The others take Iceberg tables of catalogs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pyarrow as pa
from pyiceberg.expressions import And, EqualTo
from pyiceberg.table import Table
from sqlglot import TokenType

from metastore.components.information_schema import InformationSchema
from metastore.errors import InvalidRequestError, StorageError
from metastore.ground.quoting import double_quoted
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.inspection.column_statistics import STATISTICS, column_statistics
from metastore.lake.inspection.partition_names import partition_names
from metastore.model.identity import TableInfo
from metastore.sql.queries.composed_query import ComposedQuery
from metastore.sql.queries.relations import Relations
from metastore.sql.queries.select import rows_of
from metastore.sql.statement import Cursor, Name, Statement
from metastore.sql.tables.show import described_columns, like
from metastore.sql.tables.table_definition import quote_name, table_definition
from metastore.sql.target import StatementTarget
from metastore.sql.tasks.division import columns_of


def show_create_table(target: StatementTarget, statement: Statement) -> pa.Table:
    """Returns one row: the statement that creates the table."""
    table = _table(target, Cursor(statement, 3), "DESCRIBE shows its columns")
    name = ".".join(quote_name(part) for part in (table.catalog_name, *table.schema_name.split("."), table.name))
    return pa.table({"CREATE_TABLE": pa.array([table_definition(name, table.load())], pa.string())})


def show_columns(target: StatementTarget, statement: Statement) -> pa.Table:
    """Returns the columns of a table or view, as DESCRIBE does; with LIKE, those whose names match."""
    cursor = Cursor(statement, 2)
    if not cursor.accept_word("IN"):
        cursor.expect_word("FROM")
    names = cursor.table()
    pattern = like(cursor)
    found = described_columns(target, statement, names)
    kept = [pattern is None or bool(pattern.fullmatch(str(name))) for name in found["COLUMN_NAME"].to_pylist()]
    return found.filter(pa.array(kept, pa.bool_()))


def show_stats(target: StatementTarget, statement: Statement) -> pa.Table:
    """Returns what is known of each column, and of the number of rows, as Trino does."""
    cursor = Cursor(statement, 2)
    cursor.expect_word("FOR")
    if cursor.ahead(TokenType.L_PAREN):
        return _stats_of_query(target, statement)
    names = cursor.table()
    with statement.at(names[0].token):
        info = Relations(target).plugin_name([name.text for name in names])
    if info is not None:
        cursor.end()
        with statement.at(names[0].token):
            Relations(target).meaning(info)
            return _stats_of_units(target, info)
    table = _table(target, cursor, "name a table", names)
    return _from_manifests(table, lambda loaded: column_statistics(loaded, loaded.current_snapshot()))


def _stats_of_units(target: StatementTarget, info: TableInfo) -> pa.Table:
    """Returns what the last ANALYZE learned of the columns of a table of a storage plugin."""
    known = InformationSchema(target.metastore)
    named = And(EqualTo("TABLE_SCHEMA", f"{info.storage_plugin}.{info.workspace}"), EqualTo("TABLE_NAME", info.name))
    tables = known.tables(["NUM_ROWS"], named).to_pylist()
    if not tables:
        raise InvalidRequestError(f"{info} was not analyzed yet; ANALYZE learns its statistics")
    rows = tables[0]["NUM_ROWS"]
    columns = known.columns(["COLUMN_NAME", "NDV", "NUM_NULLS", "MIN_VAL", "MAX_VAL"], named)
    stats = [
        {
            "column_name": column["COLUMN_NAME"],
            "distinct_values_count": column["NDV"],
            "nulls_fraction": column["NUM_NULLS"] / rows if rows and column["NUM_NULLS"] is not None else None,
            "low_value": column["MIN_VAL"],
            "high_value": column["MAX_VAL"],
        }
        for column in columns.to_pylist()
    ]
    return pa.Table.from_pylist([*stats, {"row_count": rows}], pa.schema(STATISTICS))


def _stats_of_query(target: StatementTarget, statement: Statement) -> pa.Table:
    """Returns the statistics of a query's rows, which are counted now: only distinct values are estimated."""
    query, relations = statement.tokens[3:], Relations(target)
    every = ComposedQuery(statement).add("SELECT * FROM").part(query)
    with every.errors():
        schema = columns_of(every.query(), relations)
    composed = ComposedQuery(statement).add("SELECT count(*)")
    for name in map(double_quoted, schema.names):
        composed.add(f", approx_count_distinct({name}), count({name}), min({name})::VARCHAR, max({name})::VARCHAR")
    with composed.add("FROM").part(query).errors():
        [rows, *found] = [column[0].as_py() for column in rows_of(composed.query(), relations).columns]
    columns = []
    for name in schema.names:
        (distinct, held, low, high), found = found[:4], found[4:]
        shares = {"distinct_values_count": distinct, "nulls_fraction": (rows - held) / rows if rows else None}
        columns.append({"column_name": name, **shares, "low_value": low, "high_value": high})
    return pa.Table.from_pylist([*columns, {"row_count": rows}], pa.schema(STATISTICS))


def show_partitions(target: StatementTarget, statement: Statement) -> pa.Table:
    """Returns the partitions of a table by name. Raises InvalidRequestError if it was never partitioned."""
    cursor = Cursor(statement, 2)
    if not cursor.accept_word("FROM"):
        cursor.accept_word("IN")
    start = cursor.token
    table = _table(target, cursor, "INFORMATION_SCHEMA.PARTITIONS has its partitions")

    def read(loaded: Table) -> pa.Table:
        if not any(spec.fields for spec in loaded.metadata.partition_specs):
            raise statement.error(f"table {table} is not partitioned", start)
        return partition_names(loaded, loaded.current_snapshot())

    return _from_manifests(table, read)


def show_properties(target: StatementTarget, statement: Statement) -> pa.Table:
    """Returns the properties of a table, or the one that is asked for."""
    cursor = Cursor(statement, 2)
    names, key = cursor.names("catalog.schema.table"), None
    if cursor.accept(TokenType.L_PAREN):
        key = cursor.expect(TokenType.STRING, "the name of a property in quotes").text
        cursor.expect(TokenType.R_PAREN, ")")
    table = _table(target, cursor, "storage plugins have properties in the configuration", names)
    found = sorted(table.load().metadata.properties.items())
    rows = [{"KEY": name, "VALUE": value} for name, value in found if key in (None, name)]
    return pa.Table.from_pylist(rows, pa.schema({"KEY": pa.string(), "VALUE": pa.string()}))


def _table(target: StatementTarget, cursor: Cursor, otherwise: str, names: Sequence[Name] | None = None) -> TargetTable:
    """Read the name of a table of a catalog, and the end; ``otherwise`` is the next step for other tables."""
    names = names or cursor.names("catalog.schema.table")
    cursor.end()
    with cursor.statement.at(names[0].token):
        parts = target.catalogs.full([name.text for name in names])
        if len(parts) < 3 or parts[0].lower() not in {name.lower() for name in target.catalogs.names()}:
            raise InvalidRequestError(
                f"{'.'.join(parts)} is no Iceberg table of a catalog (catalog.schema.table); {otherwise}"
            )
        return target.catalogs.table(parts[0], ".".join(parts[1:-1]), parts[-1])


def _from_manifests(table: TargetTable, read: Callable[[Table], pa.Table]) -> pa.Table:
    loaded = table.load()
    try:
        return read(loaded)
    except OSError as error:
        raise StorageError(f"cannot read the manifests of {table}: {error}") from error


HANDLERS: Final = {
    ("SHOW", "CREATE", "TABLE"): show_create_table,
    ("SHOW", "COLUMNS"): show_columns,
    ("SHOW", "STATS"): show_stats,
    ("SHOW", "PARTITIONS"): show_partitions,
    ("SHOW", "TBLPROPERTIES"): show_properties,
}
