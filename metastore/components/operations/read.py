"""Read: choose metadata types, rows, columns and a version; the result is units or Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, And, BooleanExpression

from metastore.components.storage.file_groups import FileGroup, Parts
from metastore.components.storage.reader import Reader
from metastore.config.reading import ReadSettings
from metastore.errors import InvalidRequestError
from metastore.ground.optional import library
from metastore.lake.iceberg.snapshots.snapshot_choice import SeenVersion, SnapshotChoice, as_of, at_version, newest
from metastore.model.bounds.unit_facts import columns_for, facts_of_rows
from metastore.model.fields import Unit, require_columns
from metastore.model.mapping.null_semantics import as_drill, as_sql
from metastore.model.mapping.rows import PartitionKey, from_arrow
from metastore.model.mapping.schema import iceberg_schema, require_fit
from metastore.model.vocabulary import MetadataType
from metastore.predicates.given_filter import Filter, expression_of

if TYPE_CHECKING:
    import pandas as pd

U = TypeVar("U", bound=Unit)

RowsOf = Callable[[frozenset[MetadataType]], BooleanExpression]
"""Returns a filter for the rows of the given types; its conditions on partition columns prune.

Raises InvalidRequestError for a type that the component never has.
"""


class Read(Generic[U]):
    """A request under construction; every method returns it, and only a terminal method reads."""

    def __init__(self, unit_type: type[U], reader: Reader, rows_of: RowsOf) -> None:
        self._unit_type = unit_type
        self._reader = reader
        self._rows_of = rows_of
        self._types: frozenset[MetadataType] = frozenset()
        self._filter: BooleanExpression = AlwaysTrue()
        self._columns: tuple[str, ...] | None = None
        self._choose: SnapshotChoice = newest

    def metadata_types(self, *types: MetadataType) -> Read[U]:
        """The metadata types to read: at least one, or ALL. InvalidRequestError for one that it never has."""
        self._types = frozenset(MetadataType(kind) for kind in types)
        self._rows_of(self._types)
        return self

    def columns(self, *names: str | Sequence[str]) -> Read[U]:
        """On-disk columns to read, as names or lists of names, at least one; by default all.

        InvalidRequestError names an unknown column.
        """
        wanted = [name for each in names for name in ([each] if isinstance(each, str) else each)]
        if not wanted:
            raise InvalidRequestError("name the columns to read, at least one; without the call all are read")
        self._columns = require_columns(self._unit_type, wanted)
        return self

    def filter(self, filter_: Filter) -> Read[U]:
        """Rows to read: a condition in Spark SQL or a PyIceberg expression. Several calls are combined with AND.

        NULL follows SQL: a row without a value passes neither ``!=`` nor ``NOT IN``, nor a comparison under NOT.
        """
        expression = as_sql(expression_of(filter_, iceberg_schema(self._unit_type)))
        require_fit(self._unit_type, expression)
        self._filter = And(self._filter, expression)
        return self

    def drill_filter(self, filter_: Filter) -> Read[U]:
        """As :meth:`filter`, with NULL as in Apache Drill's metastore: NULL differs from every value.

        So a row without a value passes ``!=`` and ``NOT IN``, and a comparison by ``=`` under NOT.
        """
        expression = as_drill(expression_of(filter_, iceberg_schema(self._unit_type)))
        require_fit(self._unit_type, expression)
        self._filter = And(self._filter, expression)
        return self

    def at(self, version: int) -> Read[U]:
        """Read the version with this id instead of the newest; 0 is the empty version before the first."""
        self._choose = at_version(version)
        return self

    def at_seen(self, version: int) -> Read[U]:
        """As :meth:`at`, for a version found earlier in the same call: the store is not asked for a newer one."""
        self._choose = SeenVersion(version)
        return self

    def as_of(self, time: datetime) -> Read[U]:
        """Read the version that was current at ``time``, which needs a time zone."""
        if time.tzinfo is None:
            raise InvalidRequestError(
                f"the time {time.isoformat()} has no zone; say which, for instance {timezone.utc}"
            )
        self._choose = as_of(time)
        return self

    @property
    def limits(self) -> ReadSettings:
        """The limits of one read."""
        return self._reader.limits

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table in on-disk columns.

        Raises InvalidRequestError when no metadata type was given, NotFoundError when the version is not kept.
        """
        return self._reader.read(self._choose, self._expression(), self._columns)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows batch by batch, so they need not fit into memory. Raises as :meth:`to_arrow`."""
        return self._reader.batches(self._choose, self._expression(), self._columns)

    def few(self, most: int) -> pa.Table | None:
        """Return the rows in one chunk, cached for their version; None if files of over ``most`` bytes must be opened.

        Raises as :meth:`to_arrow`, and StorageError when the version expires during the read.
        """
        return self._reader.few(self._choose, self._expression(), self._columns, most)

    def parts(self, *, open_small: bool = False) -> Parts:
        """Return the rows as parts, which this process or several others can read. Raises as :meth:`to_arrow`.

        Unlike :meth:`to_arrow`, it caches nothing, and fails if its version expires during the read. With
        ``open_small``, rows of few small files are read at once and cached.
        """
        return self._reader.parts(self._choose, self._expression(), self._columns, open_small=open_small)

    def facts(self, *wanted: str) -> Iterator[pa.Table]:
        """Yield facts of the rows, table by table: those named ``wanted``.

        :data:`metastore.model.bounds.unit_facts.FACTS` has their names. Reads embedded columns instead of rows where
        data files have them, except for few small files. Replaces :meth:`columns`. Raises as :meth:`parts`.
        """
        parts = self.columns(*columns_for(wanted)).parts(open_small=True)
        yield facts_of_rows(parts.answered, wanted)
        for group in parts.groups:
            yield from group.facts(wanted)

    def partitions(self) -> dict[PartitionKey, FileGroup]:
        """Return one file group for each partition, with all columns, to read later, here or in another process.

        Raises as :meth:`parts`.
        """
        return self._reader.partitions(self._choose, self._expression())

    def groups(self) -> tuple[FileGroup, ...]:
        """Return the rows as groups of data files, with what manifests say of each file. Raises as :meth:`parts`."""
        return self._reader.groups(self._choose, self._expression(), self._columns)

    def read_ahead(self) -> Read[U]:
        """Fetch the manifests for these rows at once, if the store has latency: for several questions that follow."""
        self._reader.read_ahead(self._choose, self._expression())
        return self

    def execute(self) -> list[U]:
        """Return the rows as units; columns that were not requested are None. Raises as :meth:`to_arrow`."""
        return from_arrow(self._unit_type, self.to_arrow())

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas frame. Raises as :meth:`to_arrow`, and InvalidRequestError without pandas."""
        library("pandas", "pandas")
        return self.to_arrow().to_pandas()

    def _expression(self) -> BooleanExpression:
        if not self._types:
            raise InvalidRequestError(
                "name the metadata types to read, at least one: read().metadata_types(MetadataType.ALL)"
            )
        return And(self._rows_of(self._types), self._filter)
