"""The data that every task of one rewrite needs, which pickles: the pinned table, and the properties of new files."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import pyarrow as pa
from pyiceberg.io import FileIO
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.name_mapping import NameMapping
from pyiceberg.transforms import Transform
from pyiceberg.typedef import TableVersion

from metastore.lake.formats.parquet.marked_footer import Mark
from metastore.lake.iceberg.columns.carried_columns import carried_schema, marks_of, part_ids
from metastore.lake.iceberg.columns.readable_columns import stored_schema
from metastore.lake.iceberg.rows.equality_deletes import schemas_by_age
from metastore.lake.iceberg.rows.row_lineage import with_lineage
from metastore.lake.writes.space_curves import CurveKind
from metastore.lake.writes.stored_names import stored_names

_log: Final = logging.getLogger(__name__)

_FORMAT: Final = "write.format.default"
_WRITTEN: Final = "parquet"


def warn_of_other_format(name: str, properties: Mapping[str, str]) -> None:
    """Log a warning if the table ``name`` asks for data files of another format than Parquet."""
    wanted = properties.get(_FORMAT, _WRITTEN)
    if wanted.lower() != _WRITTEN:
        _log.warning(
            "new data files of %s are Parquet, though its property %s is %s: this package writes no other format, and "
            "engines read both in one table",
            name,
            _FORMAT,
            wanted,
        )


class SortKey(NamedTuple):
    """One sort key: a column by field ID, with a transform."""

    source_id: int
    transform: Transform  # type: ignore[type-arg] # whatever it makes of whatever
    descending: bool
    nulls_first: bool


class AlongCurve(NamedTuple):
    """A sort key through several columns by field ID: rows are near each other if they are near in all columns."""

    source_ids: tuple[int, ...]
    kind: CurveKind = "zorder"


@dataclass(frozen=True)
class RewriteJob:
    """The pinned table, and how its rows are rewritten.

    ``schemas`` are the table's, the current one first; older ones serve deletes by columns that were dropped since.
    ``order`` is the order of the rows within a group; empty to keep the order of reading. ``sort_order_id`` is recorded
    on the new files. ``name_mapping`` reads files without field IDs. ``keep_going``: a failing task returns its error
    instead of raising it. ``keeps_lineage``: rows are read with their lineage, and new files store it in columns, as
    version 3 needs. ``mark`` is a text in the names of new files, by which files of lost tasks are found.
    ``of_folder``: the files are those of a plain folder, which have no field ids. Their directories tell the columns of
    the partition spec, so the files lack these.
    """

    name: str
    location: str
    properties: dict[str, str]
    io: FileIO
    schemas: tuple[Schema, ...]
    specs: tuple[PartitionSpec, ...]
    output_spec_id: int
    name_mapping: NameMapping | None = None
    order: tuple[SortKey | AlongCurve, ...] = ()
    sort_order_id: int | None = None
    keep_going: bool = False
    format_version: TableVersion = 2
    keeps_lineage: bool = False
    mark: str = ""
    of_folder: bool = False

    @classmethod
    def of(cls, name: str, metadata: TableMetadata, io: FileIO) -> RewriteJob:
        """Returns the job that keeps the rows' order, with new files in the table's current spec."""
        return cls(
            name=name,
            location=metadata.location,
            properties=dict(metadata.properties),
            io=io,
            schemas=tuple(schemas_by_age(metadata)),
            specs=tuple(metadata.partition_specs),
            output_spec_id=metadata.default_spec_id,
            name_mapping=metadata.name_mapping(),
            format_version=metadata.format_version,
        )

    @property
    def schema(self) -> Schema:
        """The current schema."""
        return self.schemas[0]

    @cached_property
    def output_spec(self) -> PartitionSpec:
        """The spec of the new files."""
        return self.spec(self.output_spec_id)

    @cached_property
    def file_schema(self) -> Schema:
        """The schema of the new files. Column names are sanitized for Avro, as by every writer.

        Raises InvalidRequestError if the table has a column that cannot be written.
        """
        if self.of_folder:
            return self.schema
        schema = carried_schema(self.name, self.schema)
        return stored_names(with_lineage(schema) if self.keeps_lineage else schema)

    @cached_property
    def arrow_schema(self) -> pa.Schema:
        """The Arrow schema of the new files, with field ids."""
        return schema_to_pyarrow(self.file_schema)

    @cached_property
    def marks(self) -> Mapping[int, Mark]:
        """What footers of new files say of variants and geometries, by field id."""
        return marks_of(self.schema)

    @cached_property
    def unread_ids(self) -> frozenset[int]:
        """The ids of leaves that nobody looks into: new files have no statistics of them."""
        return frozenset(leaf for field_id in self.marks for leaf in (field_id, *part_ids(field_id)))

    @cached_property
    def stored_schema(self) -> Schema:
        """The columns that new files store; those of unknown type are always NULL, and are left out."""
        stored = stored_schema(self.file_schema)
        if not self.of_folder:
            return stored
        told = {field.source_id for field in self.output_spec.fields}
        return Schema(*(field for field in stored.fields if field.field_id not in told))

    def spec(self, spec_id: int) -> PartitionSpec:
        """Returns one of the table's specs."""
        return next(spec for spec in self.specs if spec.spec_id == spec_id)
