"""What every component has: read, modify, metadata. A component is its unit and how metadata types meet its columns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression

from metastore.expiration.handler import ExpirationHandler
from metastore.expiration.worker import ExpirationWorker
from metastore.model.fields import Unit
from metastore.model.vocabulary import MetadataType
from metastore.operations.modify import Modify
from metastore.operations.read import Read
from metastore.operations.versions import ComponentMetadata
from metastore.storage.group_commit import GroupCommitter
from metastore.storage.reader import Reader
from metastore.storage.table import ComponentTable

U = TypeVar("U", bound=Unit)
TypesFilter = Callable[[frozenset[MetadataType]], BooleanExpression]


@dataclass(frozen=True)
class Definition(Generic[U]):
    """What makes a component: its name, its unit, and its filters for metadata types.

    ``rows_of`` selects the rows of given types; ``partitions_of`` the partitions that can hold them, by partition
    columns only. ``whole_types`` are those whose units fill partitions of their own, and so can be deleted alone.
    """

    name: str
    unit_type: type[U]
    rows_of: TypesFilter
    partitions_of: TypesFilter
    whole_types: frozenset[MetadataType]


def single_type(name: str, unit_type: type[U], kind: MetadataType) -> Definition[U]:
    """The definition of a component whose units are all of one ``kind``, each in a partition of its own."""

    def rows_of(types: frozenset[MetadataType]) -> BooleanExpression:
        return AlwaysTrue() if types & {MetadataType.ALL, kind} else AlwaysFalse()

    return Definition(name, unit_type, rows_of, rows_of, frozenset({kind}))


@dataclass(frozen=True)
class Backing:
    """The parts that carry out a component's operations, put together by the metastore."""

    table: ComponentTable
    reader: Reader
    committer: GroupCommitter
    expiration: ExpirationHandler
    worker: ExpirationWorker


class Component(Generic[U]):
    """One component of an open metastore."""

    def __init__(self, definition: Definition[U], backing: Backing) -> None:
        self.definition = definition
        self._backing = backing

    @property
    def backing(self) -> Backing:
        """What carries out the operations; a component with more to it is built on the same."""
        return self._backing

    def read(self) -> Read[U]:
        """A new read request."""
        return Read(self.definition.unit_type, self._backing.reader, self.definition.rows_of)

    def modify(self) -> Modify[U]:
        """A new transaction. Nothing is written before it is executed."""
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
        """The Iceberg table beneath, for what works on any Iceberg table."""
        return self._backing.table

    @property
    def metadata(self) -> ComponentMetadata:
        """Version, history and properties of the component."""
        return ComponentMetadata(self._backing.table)

    @property
    def expiration(self) -> ExpirationHandler:
        """Expires old versions now, when asked; after modifications it is asked by the worker."""
        return self._backing.expiration

    @property
    def expiration_worker(self) -> ExpirationWorker:
        """The thread that expires after modifications, with its counts."""
        return self._backing.worker

    def initialize(self) -> str:
        """Create the component's table if there is none, bring schema and properties up to date; its location."""
        return self._backing.table.writable().metadata.location
