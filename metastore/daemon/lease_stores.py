"""Stores the numbers of the lease: small files on the metastore's own store, or a property in its catalog.

Files: ``daemon/lease-<number>.json`` below the base location, written by the store's create-if-absent like commits. The
newest few are kept. A daemon that was suspended may find the name of its next number free, because another daemon made
and removed that number meanwhile. Numbers are removed in ascending order, so its own number is gone too; it checks that
after the write.

Property: on the table ``daemon_lease``, changed by commits that require the old value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Final, Literal, cast

from pydantic import Field
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AssertTableUUID,
    SetPropertiesUpdate,
    TableRequirement,
    ValidatableTableRequirement,
)
from pyiceberg.types import LongType, NestedField

from metastore.config.settings import LEASE_FOLDER, ComponentSettings, IcebergSettings, Settings
from metastore.daemon.lease import LeaseStore, Sign
from metastore.errors import ConfigError, MetastoreError, StorageError
from metastore.lake.iceberg.catalogs.catalog_entry import CatalogEntry
from metastore.lake.iceberg.catalogs.catalogs import ConfiguredCatalog
from metastore.lake.stores.opening import open_store
from metastore.lake.stores.pointer_store import PointerStore

_KEPT: Final = 16
_NAME: Final = re.compile(r"lease-([1-9]\d*)\.json")
_PROPERTY: Final = "metastore.daemon.lease"
_TABLE: Final = "daemon_lease"


@contextmanager
def lease_store(settings: Settings) -> Iterator[LeaseStore]:
    """Open the store that the settings name. Raises ConfigError if the catalog cannot compare and set.

    It has its own connection to the catalog, closed with the context, so that signs of life never wait for other calls.
    """
    iceberg, kind = settings.iceberg, settings.daemon.lease_kind
    catalog = ConfiguredCatalog(iceberg)
    able = iceberg.catalog.type != "filesystem" and catalog.validates_here
    if kind == "catalog" and not able:
        raise ConfigError(
            f"drill.metastore.daemon.lease.kind = catalog: {catalog} cannot change a property atomically; set it "
            "to store"
        )
    try:
        if able and kind != "store":
            yield PropertyLease(CatalogEntry.of(catalog, ComponentSettings(_TABLE, f"{LEASE_FOLDER}/{_TABLE}")))
        else:
            yield file_lease(iceberg)
    finally:
        catalog.close()


def file_lease(iceberg: IcebergSettings) -> LeaseFiles:
    """Returns the lease files beside the component tables."""
    folder = f"{iceberg.base_location.rstrip('/')}/{LEASE_FOLDER}"
    store, _ = open_store(folder, iceberg.config_properties)
    return LeaseFiles(store, folder)


class LeaseFiles:
    """One small file for each number, in ``folder``."""

    def __init__(self, store: PointerStore, folder: str) -> None:
        self._store = store
        self._folder = folder

    def newest(self) -> Sign | None:
        """Lists the folder."""
        try:
            numbers = self._numbers()
            while numbers:
                location = self._location(numbers[-1])
                try:
                    return Sign.from_json(self._store.read(location), location)
                except FileNotFoundError:
                    numbers = self._numbers()
        except OSError as error:
            raise StorageError(f"the lease in {self._folder} cannot be read: {error}") from error
        return None

    def add(self, sign: Sign) -> bool:
        """Uses create-if-absent. Never waits, since there may be no other daemon."""
        location = self._location(sign.number)
        try:
            if not self._store.create_if_absent(location, sign.to_json()):
                return False
            if sign.number > 1 and not self._stands(sign.number - 1):
                with suppress(FileNotFoundError):
                    self._store.remove(location)
                return False
        except OSError as error:
            raise StorageError(f"it is unknown whether {location} was made: {error}") from error
        self._clean(sign.number)
        return True

    def is_newest(self, number: int) -> bool:
        """Asks twice, the later number first. If the earlier one still exists, no later one was made and removed."""
        try:
            return not self._stands(number + 1) and self._stands(number)
        except OSError as error:
            raise StorageError(f"the lease in {self._folder} cannot be inspected: {error}") from error

    def _stands(self, number: int) -> bool:
        return self._store.identities([self._location(number)]) != [None]

    def _clean(self, number: int) -> None:
        with suppress(OSError):
            for old in self._numbers():
                if old > number - _KEPT:
                    break
                with suppress(FileNotFoundError):
                    self._store.remove(self._location(old))

    def _numbers(self) -> list[int]:
        try:
            names = self._store.entries(self._folder).files
        except FileNotFoundError:
            return []
        return sorted(int(match[1]) for name in names if (match := _NAME.fullmatch(name)))

    def _location(self, number: int) -> str:
        return f"{self._folder}/lease-{number}.json"


class AssertProperty(ValidatableTableRequirement):
    """Requires that a property of the table still has the value that was read."""

    type: Literal["assert-property"] = Field(default="assert-property")
    key: str
    value: str | None

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override] # as PyIceberg's own
        """Raises CommitFailedException if the value differs."""
        if base_metadata is None or base_metadata.properties.get(self.key) != self.value:
            raise CommitFailedException(f"Requirement failed: {self.key} was changed")


class PropertyLease:
    """The newest number as a property of the table at ``entry``. The table is created at the first write."""

    def __init__(self, entry: CatalogEntry) -> None:
        self._entry = entry

    def newest(self) -> Sign | None:
        """Reads the property."""
        table = self._entry.load()
        text = table.metadata.properties.get(_PROPERTY) if table else None
        return None if text is None else Sign.from_json(text.encode(), f"{_PROPERTY} of {self._entry.name}")

    def add(self, sign: Sign) -> bool:
        """Commits with the requirement that the property still has the previous number."""
        table = self._table()
        seen = table.metadata.properties.get(_PROPERTY)
        before = Sign.from_json(seen.encode(), self._entry.name).number if seen else 0
        if before + 1 != sign.number:
            return False
        same = cast("TableRequirement", AssertProperty(key=_PROPERTY, value=seen))
        updates: Mapping[str, str] = {_PROPERTY: sign.to_json().decode()}
        try:
            requirements = (AssertTableUUID(uuid=table.metadata.table_uuid), same)
            self._entry.commit(table, requirements, (SetPropertiesUpdate(updates=dict(updates)),))
        except CommitFailedException:
            return False
        except MetastoreError:
            raise
        except Exception as error:
            raise StorageError(f"it is unknown whether the lease in {self._entry.name} was changed: {error}") from error
        return True

    def is_newest(self, number: int) -> bool:
        """Loads the table."""
        newest = self.newest()
        return newest is not None and newest.number == number

    def _table(self) -> Table:
        schema = Schema(NestedField(1, "number", LongType(), required=False))
        properties = {
            "write.metadata.delete-after-commit.enabled": "true",
            "write.metadata.previous-versions-max": str(_KEPT),
        }
        return self._entry.load() or self._entry.create(schema, UNPARTITIONED_PARTITION_SPEC, properties)
