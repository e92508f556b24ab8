"""SELECT: any query that DuckDB understands, over every table that the metastore can name.

::

    [EXPLAIN [ANALYZE]] SELECT … | WITH … SELECT … | FROM … | VALUES … | SUMMARIZE … | PIVOT …
    TABLE name

:mod:`metastore.sql.queries.relations` lists the names of tables. ``FOR VERSION AS OF constant`` or ``FOR TIMESTAMP AS
OF 'time'`` may follow a name. Only the columns and rows that the query can need are fetched from each table
(:mod:`metastore.sql.queries.push_down`); EXPLAIN prints them, and DuckDB's plan. EXPLAIN ANALYZE runs the query, and
says what it has read. The session's time zone is UTC.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import dataclass, replace
from time import perf_counter
from typing import Final, TypeVar

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue
from sqlglot import exp

from metastore.components.storage.table import shared_look
from metastore.duck.queries import Duck, Failure, StreamedRows
from metastore.duck.value_kinds import mark_columns
from metastore.duck.variants import with_texts
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.model.column_path import named_alike
from metastore.model.identity import TableInfo
from metastore.scan.pruning.file_columns import NOT_KEPT
from metastore.scan.pruning.row_id import ROW_ID
from metastore.sql.queries.asked_through_views import Through, asked_through
from metastore.sql.queries.narrowed_read import NarrowedRead
from metastore.sql.queries.push_down import AskedRows, asked_of, condition_text
from metastore.sql.queries.query_errors import Hints, error_of
from metastore.sql.queries.query_text import QueryText, Reference
from metastore.sql.queries.relation import Relation
from metastore.sql.queries.relations import Relations
from metastore.sql.queries.row_parts import RowsOnStore
from metastore.sql.queries.star_columns import stars_without
from metastore.sql.statement import Statement
from metastore.sql.target import StatementTarget
from metastore.sql.views.expansion import ViewText, expand
from metastore.sql.views.references import references
from metastore.sql.views.runner import in_duckdb
from metastore.sql.views.text import DEFAULT_DIALECT
from metastore.sql.views.unlisted_columns import meant_of

T = TypeVar("T")

_FIRST_WORDS: Final = ("SELECT", "WITH", "FROM", "VALUES", "SUMMARIZE", "PIVOT")
"""First words of queries."""


def select(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run a query; returns its rows."""
    if statement.engine is not None:
        return statement.engine.query_rows(target, statement.text).table()
    with shared_look():
        return with_texts(rows_of(statement, Relations(target)))


def table(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run ``TABLE name``; returns its rows."""
    word = statement.tokens[0]
    text = statement.text[: word.start] + "FROM " + statement.text[word.end + 1 :]
    return select(target, replace(Statement.parse(text), engine=statement.engine))


def rows_of(statement: Statement, relations: Relations) -> pa.Table:
    """Returns the rows of a query whose names mean ``relations``."""
    with Duck(relations.limits, current=relations.current) as duck:
        query = QueryText.parse(statement, duck.check)
        preparation = _Preparation(duck, relations)
        return preparation.run(query, preparation.prepare(query))


@contextmanager
def streamed_rows(statement: Statement, relations: Relations, order: str = "") -> Iterator[StreamedRows]:
    """Within, the rows of a query whose names mean ``relations`` can be read; they are computed while they are read.

    Rows that exceed the memory of a statement go to temporary files. ``order`` is a list of sort keys. The errors of
    the query are raised here, and by its batches.
    """
    with Duck(relations.limits, current=relations.current) as duck:
        query = QueryText.parse(statement, duck.check)
        preparation = _Preparation(duck, relations)
        text = preparation.prepare(query)

        def noting_columns(read: Callable[[], T]) -> T:
            try:
                return read()
            except Failure as failure:
                raise error_of(statement, failure, text, preparation.hints) from failure.__cause__

        rows = noting_columns(lambda: duck.stream(text, order))
        batches = iter(lambda: noting_columns(lambda: next(rows.batches, None)), None)
        yield StreamedRows(rows.schema, batches)


@dataclass(frozen=True)
class QueryTable:
    """A table that a query reads: its name for DuckDB, and the part of ``relation`` that is ``asked``."""

    name: str
    shown: str
    relation: Relation
    asked: AskedRows


@dataclass(frozen=True)
class QueryView:
    """A view that a query reads: its name, and its text for DuckDB."""

    name: str
    text: str


@dataclass(frozen=True)
class PreparedQuery:
    """A query for DuckDB: its ``text``, and the tables and views that are registered before, in order.

    ``hints`` are for its errors.
    """

    statement: Statement
    text: str
    registered: Sequence[QueryTable | QueryView]
    hints: Hints


def prepared_query(statement: Statement, relations: Relations) -> PreparedQuery:
    """Returns a query whose names mean ``relations``; it does not run. Raises as :func:`rows_of`."""
    with Duck() as duck:
        query = QueryText.parse(statement, duck.check)
        preparation = _Preparation(duck, relations)
        text = preparation.prepare(query)
        return PreparedQuery(statement, text, preparation.registered, preparation.hints)


def fetch_lines(statement: Statement, relations: Relations) -> list[str]:
    """Returns which part of each table a query fetches, as EXPLAIN prints it. Raises as :func:`rows_of`."""
    with Duck() as duck:
        preparation = _Preparation(duck, relations, explains=True)
        text = preparation.prepare(QueryText.parse(statement, duck.check))
        try:
            duck.bind(text)
        except Failure as failure:
            raise error_of(statement, failure, text, preparation.hints) from failure.__cause__
        return preparation.fetched


def explain(target: StatementTarget, statement: Statement) -> pa.Table:
    """Returns the part of each table that a query fetches, and DuckDB's plan; the query does not run."""
    if statement.engine is not None:
        lines = statement.engine.query_rows(target, statement.without_explain().text).lines
        return pa.table({"plan": pa.array(lines, pa.string())})
    word = statement.tokens[0]
    before, after = statement.text[: word.start], statement.text[word.end + 1 :]
    with shared_look(), Duck() as duck:
        query = QueryText.parse(statement, duck.check, before + " " * len("EXPLAIN") + after)
        preparation = _Preparation(duck, Relations(target), explains=True)
        text = preparation.prepare(query)
        plan = preparation.run(query, before + "EXPLAIN" + text[word.end + 1 :])
    lines = [*preparation.fetched, *(line for row in plan.to_pylist() for line in row["explain_value"].splitlines())]
    return pa.table({"plan": pa.array(lines, pa.string())})


def explain_analyze(target: StatementTarget, statement: Statement) -> pa.Table:
    """Run a query; returns the lines of EXPLAIN, what was read in which time, and DuckDB's plan with its times."""
    if not any(statement.word(2) == word for word in _FIRST_WORDS):
        known = ", ".join(_FIRST_WORDS)
        raise statement.error(f"EXPLAIN ANALYZE runs a query, which begins with one of {known}", statement.tokens[0])
    start, end = perf_counter(), statement.tokens[1].end + 1
    relations = Relations(target)
    with shared_look(), Duck(relations.limits, current=relations.current) as duck:
        query = QueryText.parse(
            statement, duck.check, re.sub(r"[^\n]", " ", statement.text[:end]) + statement.text[end:]
        )
        preparation = _Preparation(duck, relations, explains=True, measures=True)
        plan = preparation.run(query, statement.text[:end] + preparation.prepare(query)[end:])
    lines = [*preparation.fetched, *(line for each in preparation.measured for line in each.lines)]
    lines.append(f"Total: {perf_counter() - start:.3f} s")
    lines += [line for row in plan.to_pylist() for line in row["explain_value"].splitlines()]
    return pa.table({"plan": pa.array(lines, pa.string())})


@dataclass
class _ReadMeasures:
    """What a query has read of one table; DuckDB may read it several times."""

    name: str
    stored: RowsOnStore | None
    rows: int = 0
    size: int = 0
    seconds: float = 0

    def count_batches(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yields ``batches``, and counts them."""
        while True:
            start = perf_counter()
            batch = next(batches, None)
            self.seconds += perf_counter() - start
            if batch is None:
                return
            self.rows += batch.num_rows
            self.size += batch.nbytes
            yield batch

    @property
    def lines(self) -> Iterator[str]:
        """The lines for people."""
        yield f"Read {self.name}: {self.rows} rows of {self.size} bytes in {self.seconds:.3f} s"
        if self.stored is not None:
            yield f"  files opened: {len(self.stored.sizes)} of {self.stored.size} bytes"


class _Preparation:
    """Registers the tables of one statement in DuckDB.

    With ``explains``, ``fetched`` says which part of each is read. With ``measures``, ``measured`` says what was read.
    """

    def __init__(self, duck: Duck, relations: Relations, *, explains: bool = False, measures: bool = False) -> None:
        self._duck = duck
        self._explains = explains
        self._measures = measures
        self._relations = relations
        self.fetched: list[str] = []
        self.measured: list[_ReadMeasures] = []
        self.left_out: dict[str, str] = {}
        self.registered: list[QueryTable | QueryView] = []

    @property
    def hints(self) -> Hints:
        """What an error of the query may name."""
        tables = [each for each in self.registered if isinstance(each, QueryTable)]
        names = dict.fromkeys(
            name for each in tables for name in each.relation.schema.names if name not in each.relation.unlisted
        )
        return Hints(tuple(names), dict(self.left_out))

    def run(self, query: QueryText, text: str) -> pa.Table:
        """Run ``text``, which was made of ``query``; an error says why a column of a table cannot be read."""
        try:
            return self._duck.run(text)
        except Failure as failure:
            raise error_of(query.statement, failure, text, self.hints) from failure.__cause__

    def prepare(self, query: QueryText, through: Through | None = None) -> str:
        """Returns the text of ``query`` with the names that its tables have in DuckDB.

        ``through`` are the conditions on their rows, if the text is that of a view.
        """
        unlisted: dict[Reference, Sequence[str]] = {}
        self._relations.look_together(reference.parts for reference in query.references)
        names = [self._source_of(query, each, unlisted, through) for each in query.references]
        stars = stars_without(query, unlisted)
        return query.with_names(names, list(stars))

    def _source_of(
        self,
        query: QueryText,
        reference: Reference,
        unlisted: dict[Reference, Sequence[str]],
        through: Through | None,
    ) -> str:
        """DuckDB's name for what a reference means; ``through`` adds the conditions of the query around a view."""
        with query.at(reference):
            wanted = None if reference.version is None else reference.version.value
            meant = meant_of(query.tree, reference.node)
            found = self._relations.resolve(reference.parts, wanted, query.names, meant)
            if isinstance(found, ViewText):
                return self._view(query, reference, found)
            if not found.schema.names:
                raise InvalidRequestError(f"{reference} has no columns: nothing is in it")
            if len(query.references) == 1:
                _require_had(reference, meant, found)
        unlisted[reference] = found.unlisted
        self.left_out.update(found.left_out)
        asked = asked_of(query, reference, found.schema)
        if through is not None:
            asked = through.of(TableInfo(*reference.parts), asked)
        return self._table(query, reference, found, asked)

    def _table(self, query: QueryText, reference: Reference, relation: Relation, request: AskedRows) -> str:
        """Register the relation in DuckDB under a free name and return it; rows are read when DuckDB asks."""
        with query.at(reference):
            _require_told_apart(query, reference, relation)
        if self._explains:
            self.fetched += _fetch_lines(reference, request, relation.narrow(request))
        looks = copy_context()  # DuckDB reads in its own threads, which share the table state of this thread.

        def batches() -> Iterator[pa.RecordBatch]:
            return looks.copy().run(relation.batches, request)

        read = batches
        if self._measures:
            measured = _ReadMeasures(str(reference), relation.on_store(request))
            self.measured.append(measured)
            read = lambda: measured.count_batches(batches())  # noqa: E731 - each scan is counted

        self.registered.append(QueryTable(reference.parts[-1], str(reference), relation, request))
        return self._duck.add(reference.parts[-1], relation.part(request.columns), read)

    def _view(self, query: QueryText, reference: Reference, view: ViewText) -> str:
        """Register a view's query. An expanded query contains no views, so this goes one level deep."""
        tree = expand(
            view.sql, self._relations.text, dialect=view.dialect, schema_path=view.schema_path, pins=view.pins
        )
        try:
            through = None
            if view.dialect == DEFAULT_DIALECT:
                through = asked_through(query, reference, tree, self._relations.names)
            self._mark_columns(tree)
            inner = QueryText.parse(Statement.parse(in_duckdb(tree, view.dialect)), self._duck.check)
            text = self.prepare(inner, through)
            self.registered.append(QueryView(reference.parts[-1], text))
            return self._duck.add_view(reference.parts[-1], text)
        except (Failure, InvalidRequestError, NotFoundError) as error:
            raise InvalidRequestError(f"view {reference}: {error}") from error

    def _mark_columns(self, tree: exp.Query) -> None:
        """Mark the text columns of a view's query, because Spark compares text and numbers by rules of its own."""
        names = {column.name.lower() for column in tree.find_all(exp.Column)}
        found = [
            self._relations.resolve([part.name for part in table.parts], None, names, meant_of(tree, table))
            for table in references(tree)
        ]
        mark_columns(tree, [each.schema for each in found if not isinstance(each, ViewText)])


def _fetch_lines(reference: Reference, request: AskedRows, narrowed: NarrowedRead) -> list[str]:
    where = "" if isinstance(narrowed.condition, AlwaysTrue) else f" where {condition_text(narrowed.condition)}"
    first = f"Fetch {reference} ({', '.join(request.columns)}){where}"
    return [first, *(f"  {line}" for line in narrowed.lines)]


def _require_had(reference: Reference, meant: AbstractSet[str], relation: Relation) -> None:
    """Raises InvalidRequestError for a column that ``relation``, the query's only table, cannot have."""
    for name in sorted(meant - {name.lower() for name in relation.schema.names}):
        if (why := _NOT_HAD.get(name)) is not None:
            raise InvalidRequestError(f"there is no column {name} of {reference}: {why}")


_NOT_HAD: Final = {
    **NOT_KEPT,
    ROW_ID: "only analyzed Parquet tables in directories have row ids; select $path and a key of the rows",
}


def _require_told_apart(query: QueryText, reference: Reference, relation: Relation) -> None:
    """Refuse names that stand for several columns: DuckDB ignores case, and would always take the first one."""
    for name, several in named_alike(relation.schema.names).items():
        if name in query.names:
            raise InvalidRequestError(
                f"{reference} has the columns {' and '.join(several)}, which differ in case alone: SELECT cannot tell "
                "them apart; ask for all columns, or read the table by a program"
            )


HANDLERS: Final = {
    ("SELECT",): select,
    ("FROM",): select,
    ("TABLE",): table,
    ("VALUES",): select,
    ("SUMMARIZE",): select,
    ("PIVOT",): select,
    ("EXPLAIN",): explain,
    ("EXPLAIN", "ANALYZE"): explain_analyze,
}
