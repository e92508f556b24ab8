"""The base of all components: read, modify, metadata. A component defines its unit and how types map to columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression

from metastore.components.expiration.handler import ExpirationHandler
from metastore.components.expiration.worker import ExpirationWorker
from metastore.components.operations.modify import Modify
from metastore.components.operations.read import Read
from metastore.components.operations.versions import ComponentMetadata
from metastore.components.storage.group_commit import GroupCommitter
from metastore.components.storage.reader import Reader
from metastore.components.storage.table import ComponentTable
from metastore.errors import InvalidRequestError
from metastore.model.fields import Unit
from metastore.model.vocabulary import MetadataType

U = TypeVar("U", bound=Unit)
TypesFilter = Callable[[frozenset[MetadataType]], BooleanExpression]


@dataclass(frozen=True)
class ComponentDefinition(Generic[U]):
    """Defines a component: its name, its unit, and its filters for metadata types.

    ``rows_of`` selects the rows of given types; ``partitions_of`` the partitions that can hold them, by partition
    columns only. ``whole_types`` are the types whose units have partitions of their own, so they can be deleted alone.
    """

    name: str
    unit_type: type[U]
    rows_of: TypesFilter
    partitions_of: TypesFilter
    whole_types: frozenset[MetadataType]


def require_held(name: str, types: frozenset[MetadataType], held: frozenset[MetadataType]) -> None:
    """Raise InvalidRequestError if the component ``name``, which has the types ``held``, never has one of ``types``."""
    if others := sorted(map(str, types - held - {MetadataType.ALL})):
        raise InvalidRequestError(
            f"component {name} has no metadata of type {', '.join(others)}; it has {', '.join(sorted(map(str, held)))}"
        )


def single_type(name: str, unit_type: type[U], kind: MetadataType) -> ComponentDefinition[U]:
    """Return the definition of a component whose units have one ``kind`` and one partition each."""

    def rows_of(types: frozenset[MetadataType]) -> BooleanExpression:
        require_held(name, types, frozenset({kind}))
        return AlwaysTrue() if types else AlwaysFalse()

    return ComponentDefinition(name, unit_type, rows_of, rows_of, frozenset({kind}))


@dataclass(frozen=True)
class Backing:
    """The objects that execute a component's operations; the metastore assembles them."""

    table: ComponentTable
    reader: Reader
    committer: GroupCommitter
    expiration: ExpirationHandler
    worker: ExpirationWorker


class Component(Generic[U]):
    """One component of an open metastore."""

    def __init__(self, definition: ComponentDefinition[U], backing: Backing) -> None:
        self.definition = definition
        self._backing = backing

    @property
    def backing(self) -> Backing:
        """The objects that execute the operations; an extended component is built on the same ones."""
        return self._backing

    def read(self) -> Read[U]:
        """Start a read request."""
        return Read(self.definition.unit_type, self._backing.reader, self.definition.rows_of)

    def modify(self) -> Modify[U]:
        """Start a transaction. Nothing is written before it is executed."""
        backing = self._backing
        return Modify(
            self.definition.unit_type,
            backing.table,
            backing.committer,
            self.definition.partitions_of,
            self.definition.whole_types,
            backing.worker.after_commit,
        )

    @property
    def table(self) -> ComponentTable:
        """The component's Iceberg table, for code that works on any Iceberg table."""
        return self._backing.table

    @property
    def metadata(self) -> ComponentMetadata:
        """Version, history and properties of the component."""
        return ComponentMetadata(self._backing.table)

    @property
    def expiration(self) -> ExpirationHandler:
        """Expires old versions on request; the worker calls it after modifications."""
        return self._backing.expiration

    @property
    def expiration_worker(self) -> ExpirationWorker:
        """The thread that expires versions after modifications, with its counts."""
        return self._backing.worker

    def initialize(self) -> str:
        """Create the component's table if needed, update its schema and properties, and return its location."""
        return self._backing.table.writable().metadata.location
