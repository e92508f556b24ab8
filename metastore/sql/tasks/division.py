"""Decides whether and how tasks run a statement's query.

Place in the flow: a statement that writes rows asks here before it runs its query on this machine. Tasks run it if each
row of one table passes through the query alone, by DuckDB's own plan (:mod:`metastore.duck.query_plans`); so do the
rows of several tables that UNION ALL unites. Each task runs the query over a part of a table.

Otherwise the query runs on this machine, and :class:`UndividedQuery` says why: the session has no engine that runs
statements, the tables are small, rows are compared, or a function has one value for the whole statement. Tables that
are not divided must be small, because their rows travel to every task.
"""

from __future__ import annotations

import logging
import sys
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from metastore.duck.queries import Failure
from metastore.engines.engine import Engine
from metastore.sql.queries.divided_query import DividedQuery, TaskTable, prepared_columns
from metastore.sql.queries.query_errors import error_of
from metastore.sql.queries.relations import Relations
from metastore.sql.queries.row_parts import RowPart
from metastore.sql.queries.select import QueryView, prepared_query
from metastore.sql.statement import Statement
from metastore.sql.target import StatementTarget
from metastore.sql.tasks.division_choice import ChosenDivision, DivisionChoice, NotDivided
from metastore.sql.tasks.statement_tasks import task_count

_log: Final = logging.getLogger(__name__)

_SHARE_BYTES: Final = 128 << 20
"""About the most bytes of files whose rows are dealt to one group."""


@dataclass(frozen=True)
class TablePart:
    """A part of the rows of the divided table with the number ``table``."""

    table: int
    rows: RowPart


@dataclass(frozen=True)
class Division:
    """A divided query: ``columns`` are those of its rows; ``chosen`` says which tables are divided."""

    query: DividedQuery
    columns: pa.Schema
    chosen: ChosenDivision

    @property
    def engine(self) -> Engine:
        """The engine that runs tasks."""
        return self.chosen.engine

    @property
    def line(self) -> str:
        """What EXPLAIN prints."""
        return f"Run by tasks of the engine {self.engine.name}: {self.chosen.files} files, {self.chosen.size} bytes"

    @property
    def groups(self) -> int:
        """The number of groups that rows of a partitioned table are dealt to."""
        return max(task_count(self.engine), -(-self.chosen.size // _SHARE_BYTES))

    def parts(self) -> list[TablePart]:
        """Returns the rows of all divided tables in parts."""
        tasks = task_count(self.engine)
        tables = sorted(self.chosen.tables.items())
        found = [(number, part) for number, rows in tables for part in rows.parts(tasks)]
        return [TablePart(number, part) for number, part in found]


@dataclass(frozen=True)
class UndividedQuery:
    """A query that runs on this machine, and the ``reason``."""

    reason: str

    @property
    def line(self) -> str:
        """What EXPLAIN prints."""
        return f"Run on this machine: {self.reason}"


def divide_query(target: StatementTarget, statement: Statement, relations: Relations) -> Division | UndividedQuery:
    """Returns how the query ``statement``, whose names mean ``relations``, runs. It does not run here.

    Raises the errors of preparing the query:
    InvalidRequestError and NotFoundError, with line and column.
    """
    found = _divide(target, statement, relations)
    _log.info("%s", found.line)
    return found


def _divide(target: StatementTarget, statement: Statement, relations: Relations) -> Division | UndividedQuery:
    """The query for tasks, or why it is not divided. Columns are DuckDB's, found without running the query."""
    if not target.engine_for_statement(sys.maxsize, sys.maxsize).capabilities.runs_statements:
        return UndividedQuery("the session has no engine that runs statements by tasks")
    prepared = prepared_query(statement, relations)
    try:
        columns = prepared_columns(prepared)
        chosen = DivisionChoice(target, prepared).choose()
    except Failure:
        return UndividedQuery("DuckDB shows no plan of the query")
    except NotDivided as whole:
        return UndividedQuery(str(whole))
    registered = [
        each
        if isinstance(each, QueryView)
        else TaskTable(each.name, each.relation.part(each.asked.columns), chosen.held.get(number))
        for number, each in enumerate(prepared.registered)
    ]
    query = DividedQuery(statement, prepared.text, tuple(registered), prepared.hints)
    return Division(query, columns, chosen)


def columns_of(statement: Statement, relations: Relations) -> pa.Schema:
    """Returns the columns of a query's rows. It does not run. Raises as :func:`divide_query`."""
    prepared = prepared_query(statement, relations)
    try:
        return prepared_columns(prepared)
    except Failure as failure:
        raise error_of(statement, failure, prepared.text, prepared.hints) from failure.__cause__
