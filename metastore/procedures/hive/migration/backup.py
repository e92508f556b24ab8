"""The backup of a migrated table: the metastore's description of the table and its partitions, kept with its metadata.

Each attempt has one file of compressed lines: a header, the table, then each partition, as thrift's JSON. The file lies
in a hidden folder of the table, which Hive's readers ignore and Iceberg's removal of orphan files does not delete.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from hive_metastore.ttypes import Partition, Table
from pyiceberg.io import FileIO
from thrift.protocol.TJSONProtocol import TJSONProtocolFactory
from thrift.Thrift import TException
from thrift.TSerialization import deserialize, serialize

from metastore.errors import FormatError, NotFoundError
from metastore.lake.stores.bounded_reading import ReadLimits, gunzip, whole

BACKUP_PROPERTY: Final = "metastore.hive-backup"
"""Iceberg table property with the location of the Hive table's backup."""

BACKUP_FILE: Final = "hive-table.backup"
"""The name has no suffix, so that Arrow's file systems do not compress the file by its suffix."""
_FORM: Final = 1


@dataclass(frozen=True)
class Backup:
    """A Hive table before its migration.

    ``facts`` describe the migration (its snapshot, its files), for the way back.
    """

    table: Table
    partitions: Sequence[Partition]
    facts: Mapping[str, Any]

    @property
    def snapshots(self) -> tuple[int, ...]:
        """The snapshots that the migration made, oldest first; none for a table without files."""
        made = (self.facts.get(name) for name in ("snapshot-id", "rewritten-snapshot-id"))
        return tuple(each for each in made if each is not None)

    def write(self, io: FileIO, location: str) -> None:
        """Write the backup to a new file."""
        lines = [json.dumps({"form": _FORM, **self.facts}).encode()]
        lines += [serialize(each, _FACTORY) for each in (self.table, *self.partitions)]
        with io.new_output(location).create() as stream:
            stream.write(gzip.compress(b"\n".join(lines), mtime=0))

    @classmethod
    def read(cls, io: FileIO, location: str) -> Backup:
        """Returns the backup at ``location``. Raises NotFoundError if it is missing, FormatError if it is damaged."""
        try:
            limit = ReadLimits.of(io.properties).limit_of("backup")
            content = gunzip(whole(io.new_input(location), limit), location, limit)
            head, table, *partitions = content.split(b"\n")
            facts = json.loads(head)
            if facts.pop("form") != _FORM:
                raise FormatError(f"{location} was written by a newer release of this package")
            return cls(
                deserialize(Table(), table, _FACTORY),
                [deserialize(Partition(), each, _FACTORY) for each in partitions],
                facts,
            )
        except FileNotFoundError as error:
            raise NotFoundError(f"the backup {location} of the Hive table is gone") from error
        except _UNREADABLE as error:
            raise FormatError(f"{location} is no backup of a Hive table: {error}") from error


_FACTORY: Final = TJSONProtocolFactory()
_UNREADABLE: Final = (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError, zlib.error, TException)
"""Errors of gzip, JSON and thrift for damaged bytes."""
