"""Decides whether and how tasks run a statement's query.

Place in the flow: a statement that writes rows asks here before it runs its query on this machine. The first of these
ways that fits is taken:

1. *Alone.* Each row of one table passes through the query alone (:mod:`metastore.duck.query_plans`). Each task runs the
   query over a part of the table.
2. *By keys.* Rows are dealt by keys, so that each task has all rows that the query compares
   (:mod:`metastore.sql.queries.query_keys`). Queries of several tables that compare no rows, as UNION ALL, need no
   keys.
3. *One task* gets all rows, and spills to its disk what exceeds its memory.

Otherwise the query runs on this machine, and :class:`Undivided` says why: the session has no engine that runs
statements, the tables are small, or a function has one value for the whole statement. Tables that are not divided must
be small, because their rows travel to every task.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from metastore.duck.queries import Failure
from metastore.duck.query_cut import UPPER_TABLE
from metastore.engines.engine import Engine
from metastore.sql.queries.divided_query import DividedQuery, TaskTable, prepared_columns
from metastore.sql.queries.relations import Relations
from metastore.sql.queries.select import QueryView, error_of, prepared_query
from metastore.sql.statement import Statement
from metastore.sql.target import StatementTarget
from metastore.sql.tasks.division_choice import Choice, Chosen, Whole
from metastore.sql.tasks.row_dealing import Dealing, DealtTable, LowerHalf, TablePart
from metastore.sql.tasks.statement_tasks import Deal, Dealt, task_count

_log: Final = logging.getLogger(__name__)

_SHARE_BYTES: Final = 128 << 20
"""About the most bytes of files whose rows are dealt to one group."""


@dataclass(frozen=True)
class Division:
    """A divided query: ``columns`` are those of its rows; ``chosen`` says which tables are divided, and how.

    If the query is cut in two, ``query`` is its lower half.
    """

    query: DividedQuery
    columns: pa.Schema
    chosen: Chosen

    @property
    def engine(self) -> Engine:
        """The engine that runs tasks."""
        return self.chosen.engine

    @property
    def line(self) -> str:
        """What EXPLAIN prints."""
        what = f"{self.chosen.files} files, {self.chosen.size} bytes"
        if self.chosen.why_one:
            return f"Run by one task of the engine {self.engine.name}: {what}; {self.chosen.why_one}"
        keys = [f"{each.name} by {each.key}" for each in (self.chosen.dealt or {}).values() if each.key is not None]
        if self.chosen.upper is not None:
            keys.append(f"then by {self.chosen.upper.key}")
        how = f"; rows are dealt: {', '.join(keys)}" if keys else ""
        return f"Run by tasks of the engine {self.engine.name}: {what}{how}"

    @property
    def groups(self) -> int:
        """The number of groups that rows are dealt to."""
        return max(task_count(self.engine), -(-self.chosen.size // _SHARE_BYTES))

    @property
    def last(self) -> DividedQuery:
        """The query whose rows are those of the statement's query."""
        upper = self.chosen.upper
        if upper is None:
            return self.query
        rows = TaskTable(UPPER_TABLE, upper.columns, None)
        return DividedQuery(self.query.statement, upper.upper, (rows,), self.query.left_out, is_half=True)

    @property
    def stages(self) -> tuple[Callable[[TablePart], Iterator[Dealt]] | None, Sequence[Deal]]:
        """The task that deals the rows of parts, and those that deal them again, before :attr:`last` runs in groups.

        The first one is None if :attr:`last` runs over each part.
        """
        upper, dealing = self.chosen.upper, self.dealing
        if upper is None:
            return None if dealing is None else dealing.deal, ()
        between = LowerHalf(self.query, DealtTable(UPPER_TABLE, upper.columns, upper.key), self.groups)
        return (between.of_part, ()) if dealing is None else (dealing.deal, (between.of_group,))

    @property
    def dealing(self) -> Dealing | None:
        """How tasks deal the rows; None if each part is a task of its own."""
        if self.chosen.dealt is None:
            return None
        return Dealing(self.chosen.dealt, 1 if self.chosen.why_one else self.groups, self.groups)

    def parts(self) -> list[TablePart]:
        """Returns the rows of all divided tables in parts."""
        tasks = task_count(self.engine)
        tables = sorted(self.chosen.tables.items())
        found = [(number, part) for number, rows in tables for part in rows.parts(tasks)]
        return [TablePart(place, number, part) for place, (number, part) in enumerate(found)]


@dataclass(frozen=True)
class Undivided:
    """A query that runs on this machine, and the ``reason``."""

    reason: str

    @property
    def line(self) -> str:
        """What EXPLAIN prints."""
        return f"Run on this machine: {self.reason}"


def divided(
    target: StatementTarget, statement: Statement, relations: Relations, *, only_alone: bool = False
) -> Division | Undivided:
    """Returns how the query ``statement``, whose names mean ``relations``, runs. It does not run here.

    With ``only_alone``, it is not divided unless each row passes alone. Raises the errors of preparing the query:
    InvalidRequestError and NotFoundError, with line and column.
    """
    found = _divided(target, statement, relations, only_alone=only_alone)
    _log.info("%s", found.line)
    return found


def _divided(
    target: StatementTarget, statement: Statement, relations: Relations, *, only_alone: bool
) -> Division | Undivided:
    if not target.engine_for_statement(sys.maxsize, sys.maxsize).capabilities.runs_statements:
        return Undivided("the session has no engine that runs statements by tasks")
    prepared = prepared_query(statement, relations)
    try:
        columns = prepared_columns(prepared)
        chosen = Choice(target, prepared).made(only_alone=only_alone)
    except Failure:
        return Undivided("DuckDB shows no plan of the query")
    except Whole as whole:
        return Undivided(str(whole))
    registered = [
        each
        if isinstance(each, QueryView)
        else TaskTable(each.name, each.relation.part(each.asked.columns), chosen.held.get(number))
        for number, each in enumerate(prepared.registered)
    ]
    text = prepared.text if chosen.upper is None else chosen.upper.lower
    is_half = chosen.upper is not None
    query = DividedQuery(statement, text, tuple(registered), dict(prepared.left_out), is_half)
    return Division(query, columns, chosen)


def columns_of(statement: Statement, relations: Relations) -> pa.Schema:
    """Returns the columns of a query's rows. It does not run. Raises as :func:`divided`."""
    prepared = prepared_query(statement, relations)
    try:
        return prepared_columns(prepared)
    except Failure as failure:
        raise error_of(statement, failure, prepared.text, prepared.left_out) from failure.__cause__
