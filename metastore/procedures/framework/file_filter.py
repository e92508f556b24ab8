"""The ``filter`` of a procedure: a condition that chooses files of an Iceberg table.

The condition is parsed like that of ``ms.prune``: Spark SQL, times without a zone are UTC. A filter chooses whole
files, never rows. A part that cannot choose files is refused, because ignoring it would choose too many files. Trino's
``"$path"`` and ``"$partition"`` are facts of files, and are compared as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timezone
from functools import reduce
from typing import Final

import pyarrow as pa
import sqlglot
from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from sqlglot import exp
from sqlglot.errors import SqlglotError

from metastore.duck.session import connection, relation
from metastore.errors import InvalidRequestError
from metastore.ground.optional import library
from metastore.lake.iceberg.columns.readable_columns import readable_schema, reasons_of_columns_left_out
from metastore.lake.iceberg.rows.live_files import LiveFile
from metastore.predicates.exact_filter import condition_in
from metastore.predicates.iceberg_filter import iceberg_filter


def files_by(text: str, schema: Schema) -> BooleanExpression:
    """Returns the expression over columns of ``schema`` that chooses files.

    Raises InvalidRequestError if ``text`` is not a condition, has an unknown column, or has a part that cannot choose
    files.
    """
    readable = readable_schema(schema)
    absent = {name.lower(): reason for name, reason in reasons_of_columns_left_out(schema).items()}
    chosen = iceberg_filter(condition_in(text, readable), readable, absent=absent)
    if chosen.unusable:
        reasons = "; ".join(note for note in chosen.notes if note.startswith("not usable"))
        raise InvalidRequestError(
            f"the filter {text!r} cannot choose files: {reasons}. Compare columns with constants of their types"
        )
    return chosen.expression


_FACTS: Final = ("$path", "$partition")
_QUOTED: Final = re.compile(r'"(\$path|\$partition)"')


@dataclass(frozen=True)
class FileFilter:
    """A condition on columns, and one on facts of files (DuckDB's SQL; empty for none). Both must hold."""

    expression: BooleanExpression
    of_files: str = ""

    @classmethod
    def of(cls, text: str, schema: Schema) -> FileFilter:
        """Parse a filter. Raises InvalidRequestError as :func:`files_by` does."""
        on_facts, on_columns = _split_condition(text) if "$" in text else ([], [])
        if not on_facts:
            return cls(files_by(text, schema))
        rest = reduce(exp.and_, on_columns) if on_columns else None
        expression = AlwaysTrue() if rest is None else files_by(rest.sql(dialect="spark"), schema)
        return cls(expression, " AND ".join(f"({part.sql(dialect='duckdb', identify=True)})" for part in on_facts))

    def choose(self, files: Sequence[LiveFile], metadata: TableMetadata) -> tuple[LiveFile, ...]:
        """Returns the files whose facts satisfy the condition; those for which it is NULL do not."""
        if not self.of_files or not files:
            return tuple(files)
        specs, schema = metadata.specs(), metadata.schema()
        parts = [specs[live.file.spec_id].partition_to_path(live.file.partition, schema) for live in files]
        facts = pa.table({"number": range(len(files)), "$path": [live.path for live in files], "$partition": parts})
        failure: type[Exception] = library("duckdb", "sql").Error
        engine = connection(timezone.utc)
        try:
            found = relation(engine, facts).filter(self.of_files).project("number").fetchall()
        except failure as error:
            raise InvalidRequestError(f"the filter {self.of_files!r} cannot choose files: {error}") from error
        finally:
            engine.close()
        return tuple(files[number] for (number,) in found)


def _split_condition(text: str) -> tuple[list[exp.Expr], list[exp.Expr]]:
    """Returns the parts of ``text`` on facts of files, and the others, all joined by AND."""
    try:
        condition = sqlglot.parse_one(_QUOTED.sub(r"`\1`", text), dialect="spark")
    except SqlglotError:
        return [], []  # the reader of conditions says what is wrong
    parts = list(condition.flatten()) if isinstance(condition, exp.And) else [condition]
    on_facts = [part for part in parts if {each.name for each in part.find_all(exp.Column)} & {*_FACTS}]
    if mixed := [part for part in on_facts if {each.name for each in part.find_all(exp.Column)} - {*_FACTS}]:
        raise InvalidRequestError(
            f"the filter {text!r} cannot choose files: {mixed[0].sql(dialect='spark')} compares facts of files with "
            "columns. Join the two by AND"
        )
    return on_facts, [part for part in parts if part not in on_facts]
