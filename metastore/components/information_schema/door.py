"""Reads INFORMATION_SCHEMA by table name, columns and condition, as one table, in batches or in parts.

Place in the flow: ``Session.information_schema``, SELECT and the Spark data source call it. It reads only the unit
columns that the requested columns need, and only units that can match. Rows are tested again when they are made, so the
result is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import pyarrow as pa
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import bind

from metastore.components.component import Component
from metastore.components.information_schema.conditions import for_units
from metastore.components.information_schema.relation import (
    OWN_SCHEMAS,
    OWN_TABLES,
    SCHEMA_PARTS,
    SchemaRelation,
    Source,
)
from metastore.components.information_schema.relations import RELATIONS, own_tables, relation, schemas
from metastore.components.metastore import Metastore
from metastore.components.operations.read import Read
from metastore.components.storage.file_groups import FileGroup
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.model.bounds.unit_facts import facts_of_rows
from metastore.model.mapping.filters import columns_read
from metastore.model.mapping.null_semantics import as_sql
from metastore.model.mapping.row_test import RowTest
from metastore.model.vocabulary import MetadataType
from metastore.predicates.given_filter import Filter, expression_of


@dataclass(frozen=True)
class RelationRequest:
    """The ``columns`` of a relation to return, in this order, for the rows that satisfy the bound ``condition``."""

    relation: str
    columns: tuple[str, ...]
    condition: BooleanExpression

    @classmethod
    def of(cls, name: str, columns: Iterable[str] | None, where: Filter | None) -> RelationRequest:
        """Returns a request; names ignore case.

        Raises NotFoundError for the relation, InvalidRequestError for the rest.
        """
        found = relation(name)
        expression = AlwaysTrue() if where is None else as_sql(expression_of(where, found.iceberg_schema))
        try:
            condition = bind(found.iceberg_schema, expression, case_sensitive=False)
        except (ValueError, TypeError) as error:
            raise InvalidRequestError(
                f"the condition {expression} does not fit INFORMATION_SCHEMA.{found.name} "
                f"({', '.join(found.columns)}): {error}"
            ) from error
        return cls(found.name, found.canonical(columns), condition)

    @property
    def schema(self) -> pa.Schema:
        """The columns of the result."""
        return _part_of(RELATIONS[self.relation], self.columns)

    @property
    def columns_to_make(self) -> tuple[str, ...]:
        """The columns of the result, and the other columns in the condition."""
        tested = columns_read(RELATIONS[self.relation].iceberg_schema, self.condition)
        return (*self.columns, *sorted(tested - set(self.columns)))

    def rows(self, units: pa.Table, source: int) -> pa.Table:
        """Returns the result's rows from ``units`` of a source."""
        asked = RELATIONS[self.relation]
        rows = asked.sources[source].rows(units, _part_of(asked, self.columns_to_make))
        return RowTest(self.condition).passing(rows).select(self.columns)


def _part_of(relation: SchemaRelation, columns: Iterable[str]) -> pa.Schema:
    return pa.schema([(name, relation.columns[name]) for name in columns])


@dataclass(frozen=True)
class RelationPart:
    """Some rows of a result, as units or as files of units. It is plain data, so another process can read it."""

    request: RelationRequest
    source: int
    units: pa.Table | FileGroup

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows. Raises the errors of :meth:`metastore.components.storage.reader.FileGroup.batches`."""
        for units in self._some_units():
            yield from self.request.rows(units, self.source).to_batches()

    def _some_units(self) -> Iterator[pa.Table]:
        source = RELATIONS[self.request.relation].sources[self.source]
        if isinstance(self.units, FileGroup) and source.of_facts:
            yield from self.units.facts(source.units_needed(self.request.columns_to_make))
            return
        batches = self.units.to_batches() if isinstance(self.units, pa.Table) else self.units.batches()
        for batch in batches:
            yield pa.Table.from_batches([batch])


@dataclass(frozen=True)
class InformationSchema:
    """INFORMATION_SCHEMA of one metastore. ``versions`` maps components to versions; the others use their newest."""

    metastore: Metastore
    versions: Mapping[str, int] | None = None

    def at(self, version: int) -> InformationSchema:
        """Returns the state at a version of the tables component, with the versions of other components at that time.

        Raises NotFoundError if the version is not kept.
        """
        if version == 0:
            return replace(self, versions=dict.fromkeys(self.metastore.components, 0))
        for known in self.metastore.tables.metadata.history():
            if known.version == version:
                others = self.as_of(known.timestamp)
                return replace(others, versions={**(others.versions or {}), "tables": version})
        raise NotFoundError(
            f"version {version} is not kept (any more); `metastore history` lists the versions that are"
        )

    def as_of(self, time: datetime) -> InformationSchema:
        """Returns the state at ``time``, which needs a zone.

        Raises NotFoundError if a component has no version so old.
        """
        found = {
            name: component.read().metadata_types(MetadataType.ALL).filter(AlwaysFalse()).as_of(time).parts().version
            for name, component in self.metastore.components.items()
        }
        return replace(self, versions=found)

    def pin(self) -> InformationSchema:
        """Returns the current state: all later reads from it use the same versions."""
        if self.versions is not None:
            return self
        components = self.metastore.components.items()
        return replace(self, versions={name: component.metadata.version for name, component in components})

    def schemata(self, columns: Iterable[str] | None = None, where: Filter | None = None) -> pa.Table:
        """Returns every schema. ``columns`` = None means all; ``where`` is a condition in Spark SQL or PyIceberg's.

        Raises InvalidRequestError for an unknown column. The methods for other tables have the same parameters and
        errors.
        """
        return self.read("SCHEMATA", columns, where)

    def tables(self, columns: Iterable[str] | None = None, where: Filter | None = None) -> pa.Table:
        """Returns every table, every view, and the metastore's own tables; see :meth:`schemata`."""
        return self.read("TABLES", columns, where)

    def columns(self, columns: Iterable[str] | None = None, where: Filter | None = None) -> pa.Table:
        """Returns every column with its statistics; see :meth:`schemata`."""
        return self.read("COLUMNS", columns, where)

    def partitions(self, columns: Iterable[str] | None = None, where: Filter | None = None) -> pa.Table:
        """Returns every directory and every value of partition columns; see :meth:`schemata`."""
        return self.read("PARTITIONS", columns, where)

    def files(self, columns: Iterable[str] | None = None, where: Filter | None = None) -> pa.Table:
        """Returns every data file; see :meth:`schemata`."""
        return self.read("FILES", columns, where)

    def row_groups(self, columns: Iterable[str] | None = None, where: Filter | None = None) -> pa.Table:
        """Returns every row group; see :meth:`schemata`."""
        return self.read("ROW_GROUPS", columns, where)

    def views(self, columns: Iterable[str] | None = None, where: Filter | None = None) -> pa.Table:
        """Returns every view with its query; see :meth:`schemata`."""
        return self.read("VIEWS", columns, where)

    def read(self, name: str, columns: Iterable[str] | None = None, where: Filter | None = None) -> pa.Table:
        """Returns the rows of the relation ``name``.

        Raises NotFoundError, InvalidRequestError, and errors of reading.
        """
        reader = self.batches(name, columns, where)
        return reader.read_all()

    def batches(
        self, name: str, columns: Iterable[str] | None = None, where: Filter | None = None
    ) -> pa.RecordBatchReader:
        """Returns a reader of the same rows in batches; it reads them on demand."""
        request = RelationRequest.of(name, columns, where)
        return pa.RecordBatchReader.from_batches(request.schema, self._batches(request))

    def parts(self, name: str, columns: Iterable[str] | None = None, where: Filter | None = None) -> list[RelationPart]:
        """Returns the same rows in parts that other processes can read.

        Rows that need no file are already in the parts.
        """
        request = RelationRequest.of(name, columns, where)
        found: list[RelationPart] = []
        for position, source in enumerate(RELATIONS[request.relation].sources):
            found += self._parts(request, position, source, open_small=False)
        return [part for part in found if isinstance(part.units, FileGroup) or part.units.num_rows]

    def _batches(self, request: RelationRequest) -> Iterator[pa.RecordBatch]:
        for position, source in enumerate(RELATIONS[request.relation].sources):
            for part in self._parts(request, position, source, open_small=True):
                yield from part.batches()

    def _parts(
        self, request: RelationRequest, position: int, source: Source, *, open_small: bool
    ) -> Iterator[RelationPart]:
        if not source.kinds:
            yield RelationPart(request, position, self._own(source))
            return
        parts = self._units_for(request, source).parts(open_small=open_small)
        answered = parts.answered
        if source.of_facts:
            answered = facts_of_rows(answered, source.units_needed(request.columns_to_make))
        yield RelationPart(request, position, answered)
        for group in parts.groups:
            yield RelationPart(request, position, group)

    def _units_for(self, request: RelationRequest, source: Source) -> Read[Any]:
        read = self._component(source.component).metadata_types(*source.kinds)
        condition = for_units(source, request.condition)
        if not isinstance(condition, AlwaysTrue):
            read = read.filter(condition)
        return read.columns(*source.stored_columns(request.columns_to_make))

    def _component(self, name: str) -> Read[Any]:
        component: Component[Any] = self.metastore.components[name]
        return component.read() if self.versions is None else component.read().at(self.versions[name])

    def _own(self, source: Source) -> pa.Table:
        if source.component == OWN_TABLES:
            units = {name: each.definition.unit_type for name, each in self.metastore.components.items()}
            return own_tables(units)
        assert source.component == OWN_SCHEMAS
        known = [
            self._component(each.component).metadata_types(*each.kinds).columns(*SCHEMA_PARTS).to_arrow()
            for each in RELATIONS["TABLES"].sources
            if each.kinds
        ]
        pairs = pa.concat_tables(known).group_by(list(SCHEMA_PARTS)).aggregate([]).to_pylist()
        return schemas(self.metastore.settings.storage, [(row["storagePlugin"], row["workspace"]) for row in pairs])
