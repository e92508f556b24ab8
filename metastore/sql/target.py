"""The interface of a session that statements need; a session implements it, and runs statements itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import pyarrow as pa

from metastore.analyze.result import AnalyzeResult
from metastore.components.catalogs import Catalogs
from metastore.components.metastore import Metastore
from metastore.config import Settings
from metastore.config.engine import QueryDialect
from metastore.engines.engine import Engine
from metastore.model.identity import TableInfo
from metastore.procedures.framework.calls import Procedures
from metastore.scan.tables import ScannedTables
from metastore.sources.source_table import SourceTable
from metastore.sql.views.of_session import DefinedViews, RefreshedViews

Dealt = tuple[int, pa.RecordBatch]
"""Rows, and the number of the group that they belong to."""

Rows = Iterator[pa.RecordBatch]

Progress = Callable[[int, int], None]
"""Called with the amount of work done, and the total."""


class QueriedRows(Protocol):
    """The rows of a query in the SQL of an engine, which computes them by its own plan. Nothing has run."""

    columns: pa.Schema

    @property
    def engine(self) -> Engine:
        """The engine that runs the query and the tasks."""

    @property
    def lines(self) -> Sequence[str]:
        """What EXPLAIN prints: the engine and its dialect, then the engine's plan."""

    def table(self) -> pa.Table:
        """Returns all rows. Raises EngineError if the query fails."""

    def answers(
        self, gather: Callable[[Rows], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> Iterator[pa.RecordBatch]:
        """Yields the batches of ``gather``, which runs in each task on the task's rows; they have ``schema``."""

    def dealt_answers(
        self,
        deal: Callable[[Rows], Iterable[Dealt]],
        gather: Callable[[Rows], Iterable[pa.RecordBatch]],
        schema: pa.Schema,
    ) -> Iterator[pa.RecordBatch]:
        """As :meth:`answers`; before, ``deal`` numbers the groups of rows, and rows of a group come to one task."""


@dataclass(frozen=True)
class ReadRows:
    """Rows that tasks read: ``task`` yields those of each of ``parts``, in exactly ``schema``. All of it pickles."""

    parts: Sequence[Any]
    task: Callable[[Any], Rows]
    schema: pa.Schema


class QueryEngine(Protocol):
    """An engine with an SQL of its own."""

    def query_rows(self, session: StatementTarget, text: str) -> QueriedRows:
        """Returns the rows of a query over tables and views that ``session`` names.

        Raises InvalidRequestError, with line and column, and NotFoundError.
        """

    def merge_rows(self, table: ReadRows, source: QueriedRows, text: str) -> QueriedRows:
        """Returns the rows of the query ``text``, in which ``table`` is :data:`MERGE_TARGET`.

        ``source``, which this engine has made, is :data:`MERGE_SOURCE`. Raises InvalidRequestError, with line and
        column if they are known.
        """


MERGE_TARGET: Final = "$merge_target"
MERGE_SOURCE: Final = "$merge_source"
"""Names of the two sides of MERGE in the query that joins them."""


class StatementTarget(Protocol):
    """The session of a statement."""

    metastore: Metastore

    @property
    def settings(self) -> Settings:
        """The settings of the session."""

    @property
    def tables(self) -> ScannedTables:
        """Metadata of tables, and scans of the tables themselves."""

    @property
    def catalogs(self) -> Catalogs:
        """All Iceberg tables that can be named."""

    @property
    def procedures(self) -> Procedures:
        """All procedures that can be called."""

    @property
    def views(self) -> DefinedViews:
        """Views by name and from SQL."""

    @property
    def materialized_views(self) -> RefreshedViews:
        """Materialized views by name and from SQL."""

    @property
    def analyze(self) -> Callable[..., AnalyzeResult]:
        """Analyze a table, as :class:`metastore.analyze.request.AnalyzeRequest` says."""

    def engine_for(self, files: int) -> Engine:
        """Returns the engine that runs work on this number of files."""

    def engine_for_statement(self, files: int, size: int) -> Engine:
        """Returns the engine that runs a statement which reads ``files`` of ``size`` bytes in all."""

    def query_engine(self, dialect: QueryDialect) -> QueryEngine | None:
        """Returns the engine whose SQL is ``dialect``; None for DuckDB's. Raises EngineError without Spark."""

    def drop_metadata(self, table: TableInfo | str, *, if_exists: bool = False) -> bool:
        """Delete the metadata of a table; returns True if there was any."""

    def source(self, table: str) -> SourceTable:
        """Returns the location of the data of ``table``."""

    def table_info(self, table: str) -> TableInfo:
        """Returns the name under which the metastore knows ``table``."""
