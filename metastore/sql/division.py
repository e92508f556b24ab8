"""Decides whether tasks run a statement's query, each over its part of one table, and prepares the query for them.

Place in the flow: a statement that writes rows asks here before it runs its query on this machine. Every task runs
the same text in the same DuckDB, so a value does not depend on where it was computed. One table is divided; the rows of
all others travel to each task.

A statement is divided if all of this holds; otherwise it runs on this machine, and :class:`Undivided` says why:

- The session has an engine that runs statements, and the divided table is large enough for it
  (:meth:`metastore.session.Session.engine_for_statement`).
- Each row of the divided table passes through the query alone (:mod:`metastore.duck.query_plans`).
- All parts see the same: no function returns the time of the call, and no joined table has random values.
- The other tables are small.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from typing import Final

import pyarrow as pa
from sqlglot import TokenType

from metastore.duck.queries import Duck, Failure
from metastore.duck.query_plans import why_not_alone
from metastore.engine import Engine
from metastore.sql.composed import Composed
from metastore.sql.relations import Relation, Relations
from metastore.sql.row_parts import HeldRows, RowPart, RowsOnStore, in_schema
from metastore.sql.select import PreparedQuery, QueryTable, QueryView, error_of, prepared_query, rows_of
from metastore.sql.statement import Statement
from metastore.sql.target import StatementTarget
from metastore.writes.row_changes import FILE

_log: Final = logging.getLogger(__name__)

MOST_HELD_BYTES: Final = 32 << 20
"""The most bytes of other tables that travel to every task."""

ONE_VALUE: Final = frozenset(
    {
        "age",
        "current_connection_id",
        "current_date",
        "current_localtime",
        "current_localtimestamp",
        "current_query",
        "current_query_id",
        "current_setting",
        "current_time",
        "current_timestamp",
        "current_transaction_id",
        "currval",
        "get_current_time",
        "get_current_timestamp",
        "getvariable",
        "localtime",
        "localtimestamp",
        "nextval",
        "now",
        "setseed",
        "setval",
        "today",
        "transaction_timestamp",
        "txid_current",
        "write_log",
    }
)
"""Functions with one value for a whole statement, or with an effect on later calls."""

RANDOM: Final = frozenset({"gen_random_uuid", "random", "uuid", "uuidv4", "uuidv7"})
"""Functions with another value for each row."""

_WITHOUT_BRACKETS: Final = ("current_", "local")
"""The beginnings of functions that may be called without brackets."""


@dataclass(frozen=True)
class _TaskTable:
    """A table in a task: ``rows`` of a table that is not divided."""

    name: str
    schema: pa.Schema
    rows: HeldRows | None


@dataclass(frozen=True)
class DividedQuery:
    """A query that runs in each task over its part of one table. It pickles."""

    statement: Statement
    text: str
    registered: Sequence[_TaskTable | QueryView]
    left_out: Mapping[str, str]

    def rows(self, part: RowPart) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the query over ``part``.

        Raises InvalidRequestError, with line and column, for a value that an expression refuses, and the errors of
        reading ``part``.
        """
        with Duck(threads=1) as duck:
            for each in self.registered:
                if isinstance(each, QueryView):
                    duck.add_view(each.name, each.text)
                else:
                    duck.add(each.name, each.schema, partial(in_schema, each.rows or part, each.schema))
            try:
                yield from duck.stream(self.text)
            except Failure as failure:
                raise error_of(self.statement, failure, self.text, self.left_out) from failure.__cause__


@dataclass(frozen=True)
class Division:
    """A divided query: ``columns`` are those of its rows, ``rows`` the divided table's, and ``engine`` runs tasks."""

    query: DividedQuery
    columns: pa.Schema
    rows: RowsOnStore
    engine: Engine

    @property
    def line(self) -> str:
        """What EXPLAIN prints."""
        return f"Run by tasks of the engine {self.engine.name}: {len(self.rows.sizes)} files, {self.rows.size} bytes"


@dataclass(frozen=True)
class Undivided:
    """A query that runs on this machine, and the ``reason``."""

    reason: str

    @property
    def line(self) -> str:
        """What EXPLAIN prints."""
        return f"Run on this machine: {self.reason}"


def divided(target: StatementTarget, statement: Statement, relations: Relations) -> Division | Undivided:
    """Returns how the query ``statement``, whose names mean ``relations``, runs. It does not run here.

    Raises the errors of preparing the query: InvalidRequestError and NotFoundError, with line and column.
    """
    found = _divided(target, statement, relations)
    _log.info("%s", found.line)
    return found


def _divided(target: StatementTarget, statement: Statement, relations: Relations) -> Division | Undivided:
    if not target.engine_for_statement(sys.maxsize, sys.maxsize).capabilities.runs_statements:
        return Undivided("the session has no engine that runs statements by tasks")
    prepared = prepared_query(statement, relations)
    reasons: list[str] = []
    chosen = None
    try:
        columns = _columns(prepared)
        for place, rows in _candidates(prepared):
            engine = target.engine_for_statement(len(rows.sizes), rows.size)
            reason = _why_whole(prepared, place) if engine.capabilities.runs_statements else _too_small(rows)
            if reason is None:
                chosen = place, rows, engine
                break
            reasons.append(reason)
    except Failure:
        return Undivided("DuckDB shows no plan of the query")
    if chosen is None:
        return Undivided(reasons[0] if reasons else "the query reads no table in files")
    place, rows, engine = chosen
    registered: list[_TaskTable | QueryView] = []
    room = MOST_HELD_BYTES
    for number, each in enumerate(prepared.registered):
        if isinstance(each, QueryView):
            registered.append(each)
            continue
        held = None
        if number != place:
            held = _held(each, room)
            if held is None:
                return Undivided(
                    f"every task needs all rows of {each.shown}, which are more than {MOST_HELD_BYTES} bytes"
                )
            room -= len(held.content)
        registered.append(_TaskTable(each.name, each.relation.part(each.asked.columns), held))
    query = DividedQuery(statement, prepared.text, tuple(registered), dict(prepared.left_out))
    return Division(query, columns, rows, engine)


def columns_of(statement: Statement, relations: Relations) -> pa.Schema:
    """Returns the columns of a query's rows. It does not run. Raises as :func:`divided`."""
    prepared = prepared_query(statement, relations)
    try:
        return _columns(prepared)
    except Failure as failure:
        raise error_of(statement, failure, prepared.text, prepared.left_out) from failure.__cause__


def _candidates(prepared: PreparedQuery) -> list[tuple[int, RowsOnStore]]:
    """Returns the tables that may be divided, by number: those that change if there are any, else the largest first."""
    found: list[tuple[int, RowsOnStore]] = []
    changing: list[tuple[int, RowsOnStore]] = []
    for number, each in enumerate(prepared.registered):
        if isinstance(each, QueryTable) and (rows := each.relation.on_store(each.asked)) is not None:
            (changing if FILE in each.asked.columns else found).append((number, rows))
    return changing or sorted(found, key=lambda each: -each[1].size)


def _too_small(rows: RowsOnStore) -> str:
    return (
        f"the query reads {rows.size} bytes in {len(rows.sizes)} files, less than "
        "drill.metastore.engine.spark_threshold_size and spark_threshold_files"
    )


def _why_whole(prepared: PreparedQuery, place: int) -> str | None:
    """Returns why the table ``place`` cannot be divided; None if it can."""
    texts = [prepared.text, *(each.text for each in prepared.registered if isinstance(each, QueryView))]
    called = {name for text in texts for name in _called(Statement.parse(text))}
    if called & ONE_VALUE:
        return f"{min(called & ONE_VALUE)} has one value for the whole statement"
    with Duck(plans=True) as duck:
        _register(duck, prepared, place)
        plan = duck.plan(prepared.text)
    reason = why_not_alone(plan)
    if reason is None and called & RANDOM and any(len(each.inputs) > 1 for each in plan.walk()):
        return f"{min(called & RANDOM)} may be of another table, whose values every task would compute anew"
    return reason


def _called(statement: Statement) -> Iterator[str]:
    """Yields the names that ``statement`` may call as functions, in lower case."""
    for token, after in zip_longest(statement.tokens, statement.tokens[1:]):
        name = token.text.lower()
        if name.startswith(_WITHOUT_BRACKETS) or (after is not None and after.token_type is TokenType.L_PAREN):
            yield name


def _register(duck: Duck, prepared: PreparedQuery, place: int | None) -> None:
    """Register the tables without rows; the one at ``place`` as a stream, which a plan shows as such."""
    for number, each in enumerate(prepared.registered):
        if isinstance(each, QueryView):
            duck.add_view(each.name, each.text)
            continue
        schema = each.relation.part(each.asked.columns)
        if number == place:
            duck.add(each.name, schema, lambda: iter(()))
        else:
            duck.add_empty(each.name, schema)


def _columns(prepared: PreparedQuery) -> pa.Schema:
    with Duck() as duck:
        _register(duck, prepared, None)
        return duck.columns(prepared.text)[0]


def _held(table: QueryTable, room: int) -> HeldRows | None:
    """Returns the rows that are asked of ``table``; None if they are more than ``room`` bytes."""
    rows = table.relation.on_store(table.asked)
    if rows is not None and rows.size > MOST_HELD_BYTES:
        return None
    relation: Relation = table.relation
    held = HeldRows.of(relation.batches(table.asked), relation.part(table.asked.columns))
    return held if len(held.content) <= room else None


def held_rows(composed: Composed, relations: Relations) -> pa.Table | None:
    """Returns the rows of the query ``composed``, which runs here once, as tasks may read them in its place.

    Returns None if they are too many, if two columns have one name, or if a type of DuckDB would become another one on
    the way. Raises the errors of the query.
    """
    with composed.errors():
        prepared = prepared_query(composed.query(), relations)
        with Duck() as duck:
            _register(duck, prepared, None)
            try:
                columns, types = duck.columns(prepared.text)
            except Failure:
                return None  # the query of the whole statement says what is wrong
            if len({name.lower() for name in columns.names}) < len(columns.names):
                return None
            again = f"FROM {duck.add('held', columns, lambda: iter(()))}"
            if duck.columns(again)[1] != types:
                return None
        rows = rows_of(composed.query(), relations)
    return rows if rows.nbytes <= MOST_HELD_BYTES else None
