"""``create_changelog_view``: gives the rows that a range of snapshots changed a name, for queries.

The view is temporary: it lasts as long as the session, in SQL of the session and, on Spark, in Spark's session too. It
keeps the range that the table had when the view was made, as Spark's own view does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Protocol, cast

import pyarrow as pa
from pyiceberg.table import Table

from metastore.engines.engine import Chunk, Engine
from metastore.errors import InvalidRequestError
from metastore.ground.suggestions import did_you_mean
from metastore.lake.iceberg.rows.changelog import Changelog, SnapshotRange, read_part
from metastore.procedures.framework.declaration import procedure
from metastore.procedures.framework.model import CallContext, columns

_START: Final = ("start-snapshot-id", "start-timestamp")
_END: Final = ("end-snapshot-id", "end-timestamp")
_OPTIONS: Final = (*_START, *_END)


class ViewEngine(Engine, Protocol):
    """An engine whose session has views by name, as its capabilities say."""

    def make_view(
        self, name: str, chunks: Sequence[Chunk], task: Callable[[Chunk], Iterable[pa.RecordBatch]], schema: pa.Schema
    ) -> None:
        """Make the rows of ``task`` over ``chunks`` a temporary view, which replaces one of the same name.

        Its rows are read each time that a query reads the view. Raises InvalidRequestError for a column that the engine
        cannot hold.
        """


@procedure(result=columns(changelog_view=pa.string()))
def create_changelog_view(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    changelog_view: str | None = None,
    options: dict[str, str] | None = None,
    compute_updates: bool | None = None,
    identifier_columns: list[str] | None = None,
    net_changes: bool = False,
) -> Mapping[str, Any]:
    """Creates a temporary view of the rows that snapshots inserted, deleted and updated."""
    target = context.table(schema, table_name)
    table = target.load()
    name = f"{table_name}_changes" if changelog_view is None else changelog_view
    if not name.strip() or "." in name:
        raise InvalidRequestError(f"changelog_view {name!r} is no name of a temporary view: give one word without dots")
    updates = bool(identifier_columns) if compute_updates is None else compute_updates
    if updates and net_changes:
        raise InvalidRequestError("net_changes and compute_updates exclude each other: leave one of them out")
    identifiers = _identifiers(table, identifier_columns or ()) if updates else ()
    changelog = Changelog.of(table, _range(table, options or {}), identifiers, net=net_changes)
    engine = context.engine(0)
    if engine.capabilities.makes_views:
        cast("ViewEngine", engine).make_view(name, list(changelog.parts()), read_part, changelog.schema)
    context.catalogs.changelogs[name.lower()] = changelog
    return {"changelog_view": name}


def _identifiers(table: Table, columns: list[str] | tuple[()]) -> tuple[str, ...]:
    """Returns the columns that tell rows apart: the given ones, else the identifier fields of the table's schema."""
    names = tuple(columns) or tuple(sorted(table.schema().identifier_field_names()))
    if not names:
        raise InvalidRequestError(
            "updates cannot be computed without identifier columns: give identifier_columns, or set identifier fields "
            "by ALTER TABLE … SET IDENTIFIER FIELDS"
        )
    return names


def _range(table: Table, options: Mapping[str, str]) -> SnapshotRange:
    for name in options:
        if name not in _OPTIONS:
            hint = did_you_mean(name, _OPTIONS, otherwise=f"; there are {', '.join(_OPTIONS)}")
            raise InvalidRequestError(f"create_changelog_view has no option {name!r}{hint}")
    for pair in (_START, _END):
        if all(name in options for name in pair):
            raise InvalidRequestError(f"{pair[0]} and {pair[1]} exclude each other: give one of them")
    numbers = {name: _number(name, text) for name, text in options.items()}
    start, end = numbers.get("start-timestamp"), numbers.get("end-timestamp")
    by_time = SnapshotRange.of_times(table.metadata, table.io, start, end)
    last = numbers.get("end-snapshot-id", by_time.last)
    if last is not None and table.metadata.snapshot_by_id(last) is None:
        raise InvalidRequestError(f"the table has no snapshot {last}: it never existed, or it has expired")
    return SnapshotRange(numbers.get("start-snapshot-id", by_time.after), last)


def _number(name: str, text: str) -> int:
    try:
        return int(text)
    except ValueError as error:
        kind = "milliseconds since 1970" if name.endswith("timestamp") else "the id of a snapshot"
        raise InvalidRequestError(f"option {name} is {text!r}, and must be {kind}") from error
