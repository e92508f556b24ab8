"""``metastore.spark.register_views``: the metastore's views as temporary views of a Spark session.

Place in the flow: a view is expanded to its tables. The view's conditions on each table prune that table's scan, and
Spark runs the query over the remaining files. Tables are planned when views are registered; call it again to see newer
data.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from metastore.errors import EngineError, InvalidRequestError
from metastore.lake.formats.arrow_schema import arrow_schema
from metastore.model.identity import TableInfo
from metastore.model.tuple_schema import TupleSchema
from metastore.predicates.condition import Condition
from metastore.scan.pruning.asked_row_ids import row_ids_in
from metastore.scan.pruning.row_id import ROW_ID
from metastore.session import Session
from metastore.spark.pruned_table import ESCAPED_LITERALS, read_table, refuse_variables
from metastore.spark.spark_types import spark_schema, too_wide
from metastore.sql.views.bound_query import BoundQuery, bind_query
from metastore.sql.views.dialects import translate
from metastore.sql.views.expansion import Lookup, expand
from metastore.sql.views.freshness import Freshness
from metastore.sql.views.names import Names
from metastore.sql.views.push_down import conditions
from metastore.sql.views.references import table_named
from metastore.sql.views.text import DEFAULT_DIALECT
from metastore.sql.views.unlisted_columns import unlisted_column

_UNFIT: Final = re.compile(r"\W")


def register_views(
    spark: SparkSession,
    ms: Session,
    views: Iterable[TableInfo | str] | None = None,
    *,
    name: Callable[[TableInfo], str] | None = None,
    freshness: Freshness | str | None = None,
) -> dict[TableInfo, str]:
    """Make views and materialized views (None: all of them) temporary views of ``spark``; returns their names there.

    By default, the name is the last part of the view's name, with underscores in place of all characters but letters,
    digits and underscores. ``freshness`` is the greatest age of a materialized view's rows that are read instead of
    running its query; None means ``ms.views.freshness``.

    Raises NotFoundError for an unknown view, and InvalidRequestError when two views would have the same name; ``name``
    chooses other names.
    """
    every = (*ms.views.list(), *ms.materialized_views.list()) if views is None else ()
    wanted = [unit.info for unit in every] if views is None else [TableInfo.of(view) for view in views]
    called: dict[str, TableInfo] = {}
    for view in wanted:
        short = name(view) if name is not None else _UNFIT.sub("_", view.name)
        if (other := called.setdefault(short.lower(), view)) != view:
            raise InvalidRequestError(
                f"{view} and {other} would both be called {short}; pass name=… to tell them apart"
            )
    lookup = ms.views.lookup(freshness)
    registered = {}
    for short, view in called.items():
        frame_of_view(spark, ms, view, lookup).createOrReplaceTempView(short)
        registered[view] = short
    return registered


def frame_of_view(spark: SparkSession, ms: Session, view: TableInfo | str, lookup: Lookup) -> DataFrame:
    """Returns the rows of ``view`` as a DataFrame over pruned scans.

    Raises as ``register_views`` and ``read_table`` do.
    """
    info = TableInfo.of(view)
    if Names(ms.metastore, ms.tables.describe_unstored).get(info).text is None:
        raise InvalidRequestError(f"{info} is a table; use read_table")
    return frame_of_query(spark, ms, exp.select("*").from_(table_named(info)), lookup)


def frame_of_query(spark: SparkSession, ms: Session, query: str | exp.Query, lookup: Lookup) -> DataFrame:
    """Returns the rows of ``query`` as a DataFrame over pruned scans; ``lookup`` expands its views.

    A column without a name is called by its text, such as ``count(*)``. Raises InvalidRequestError, with line and
    column, for SQL that cannot be parsed or bound, NotFoundError for an unknown table, and as ``read_table`` does.
    """
    names = Names(ms.metastore, ms.tables.describe_unstored)
    found = bind_query(expand(query, lookup), names, is_view=False)
    bound, known = found.bound, found.schemas
    if not bound.columns or any(item.is_star for item in bound.query.selects):  # a star of nothing stays
        tables = ", ".join(map(str, bound.tables.values()))
        raise InvalidRequestError(f"{tables} has no columns: SELECT count(*) for the number of its rows")
    # Rows are chosen by their ids only, not by a condition of a scan.
    judged = {key: TupleSchema(tuple(c for c in of.columns if c.name != ROW_ID)) for key, of in known.items()}
    pruning, ids = conditions(bound, judged), _row_ids(found)
    asked = {column.name.lower() for column in bound.query.find_all(exp.Column)}

    def frame(key: str, table: TableInfo) -> DataFrame:
        more = found.unlisted.get(table)
        wide = {name for name in _too_wide(known[key]) if name.lower() not in asked}
        listed = [column.name for column in known[key].columns if column.name != ROW_ID and column.name not in wide]
        columns = listed if listed and (more or wide) else None
        row_id = ROW_ID in (more or ())
        return read_table(spark, ms, table, pruning.get(key), columns, row_id=row_id, among=ids.get(key))

    frames = {key: frame(key, table) for key, table in bound.tables.items()}
    return run(spark, bound.query, frames, [column.name for column in bound.columns])


def _row_ids(query: BoundQuery) -> Mapping[str, Sequence[bytes]]:
    """Returns the ids that ``query`` requires of its tables, by their keys, if it gives them as constants."""
    with_ids = {key for key, table in query.bound.tables.items() if ROW_ID in query.unlisted.get(table, ())}
    alone = TupleSchema((unlisted_column(ROW_ID),))
    asked = conditions(query.bound, dict.fromkeys(with_ids, alone)) if with_ids else {}
    found = {key: row_ids_in(Condition.of_spark(text)) for key, text in asked.items()}
    return {key: ids for key, ids in found.items() if ids is not None}


def _too_wide(schema: TupleSchema) -> Iterator[str]:
    """Returns columns that Spark cannot hold. They are read only if a query names them, and are refused then."""
    for column in schema.columns:
        if "DECIMAL" in column.type:
            [field], _ = spark_schema(arrow_schema(TupleSchema((column,))))
            if too_wide(field.dataType) is not None:
                yield column.name


def run(
    spark: SparkSession, query: exp.Query, frames: Mapping[str, DataFrame], columns: Sequence[str] | None = None
) -> DataFrame:
    """Returns the rows of ``query``; ``frames`` are its tables by name, ``columns`` are the names of its columns.

    Raises InvalidRequestError for what Spark has no counterpart for, EngineError if Spark does not understand the
    query.
    """
    translated = translate(query, DEFAULT_DIALECT, "spark")
    if translated.unsupported:
        raise InvalidRequestError(f"Spark cannot run the query: {'; '.join(translated.unsupported)}")
    if spark.conf.get("spark.sql.caseSensitive", "false") == "true":
        # Names in a bound query are in lower case; a case-sensitive session would not find names in another case.
        frames = {name: frame.toDF(*(column.lower() for column in frame.columns)) for name, frame in frames.items()}
    places = {name: f"metastore_{uuid.uuid4().hex}" for name in frames}
    _refuse_raw_literals(spark, query)
    tree = query.copy()
    for table in tree.find_all(exp.Table):
        if table.name in frames and not table.db:
            if not table.alias:
                table.set("alias", exp.TableAlias(this=exp.to_identifier(table.name)))
            table.set("this", exp.to_identifier(places[table.name]))
    text = tree.sql(DEFAULT_DIALECT).replace("{", "{{").replace("}", "}}")
    for name, place in places.items():
        text = text.replace(place, f"{{{name}}}")
    try:
        named: dict[str, Any] = dict(frames)
        made = spark.sql(text, **named)
        made.columns  # noqa: B018 - a Connect server analyzes the query on the first request about it
    except Exception as error:
        message = str(error).partition("\n")[0]
        raise EngineError(f"Spark does not understand the query: {message}; it was {text}") from error
    return made if columns is None else made.toDF(*columns)


def _refuse_raw_literals(spark: SparkSession, query: exp.Query) -> None:
    """Raises InvalidRequestError if this session would misread a literal of ``query``, printed with escapes."""
    for literal in query.find_all(exp.Literal):
        if literal.is_string:
            refuse_variables(spark, literal.sql(DEFAULT_DIALECT), literal.this)
    if spark.conf.get(ESCAPED_LITERALS, "false") == "true":
        for literal in query.find_all(exp.Literal):
            if "\\" in (text := literal.sql(DEFAULT_DIALECT)):
                raise InvalidRequestError(
                    f"with {ESCAPED_LITERALS} Spark cannot be given the text {text}; turn the setting off"
                )
