"""The doors: the interfaces that return a table's rows. Each answers with rows, a typed error, or a foreign exception.

Place in the flow: :mod:`support.doctor.files` analyzes a file and asks every door here. Promise: asking a door never
raises; an exception becomes part of the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from metastore.errors import MetastoreError
from metastore.model.identity import TableInfo
from metastore.session import Session

ReadRows = Callable[[Session, TableInfo], pa.Table]


@dataclass(frozen=True)
class Answer:
    """A door's answer for a table: its ``rows``, or the ``error``; ``code`` is None for another library's error."""

    rows: pa.Table | None = None
    error: str | None = None
    code: str | None = None

    @property
    def is_foreign(self) -> bool:
        """Whether the door raised an exception of another library."""
        return self.error is not None and self.code is None


def ask(read: ReadRows, session: Session, table: TableInfo) -> Answer:
    """Returns the answer of the door ``read`` for ``table``."""
    try:
        return Answer(read(session, table))
    except MetastoreError as error:
        return Answer(None, str(error), error.code)
    except Exception as error:  # noqa: BLE001 - that nothing else comes through a door is what is tried
        return Answer(None, f"{type(error).__module__}.{type(error).__name__}: {error}")


def _arrow(session: Session, table: TableInfo) -> pa.Table:
    return session.tables.scan(table).to_arrow()


def _batches(session: Session, table: TableInfo) -> pa.Table:
    return session.tables.scan(table).to_reader().read_all()


def _dataset(session: Session, table: TableInfo) -> pa.Table:
    return session.tables.scan(table).to_arrow_dataset().to_table()


def _sql(session: Session, table: TableInfo) -> pa.Table:
    return session.sql(f"SELECT * FROM {name_in_sql(table)}")


def _polars(session: Session, table: TableInfo) -> pa.Table:
    rows: pa.Table = session.tables.scan(table).to_polars().to_arrow()
    return rows


def _duckdb(session: Session, table: TableInfo) -> pa.Table:
    rows: pa.Table = session.tables.scan(table).to_duckdb().to_arrow_table()
    return rows


DOORS: Final[Mapping[str, ReadRows]] = {
    "to_arrow": _arrow,
    "to_batches": _batches,
    "to_arrow_dataset": _dataset,
    "sql": _sql,
    "to_polars": _polars,
    "to_duckdb": _duckdb,
}
"""The doors of this process by name; the others are compared with the first."""

RUN_BY_OTHERS: Final = frozenset({"to_arrow_dataset", "to_duckdb", "spark_read_table", "spark_select"})
"""Doors whose rows are read later by Arrow, DuckDB or Spark: these raise their own errors for a damaged file."""


def name_in_sql(table: TableInfo) -> str:
    """Returns the name of ``table`` in a statement."""
    parts = (table.storage_plugin, table.workspace, table.name)
    return ".".join("`" + part.replace("`", "``") + "`" for part in parts)
