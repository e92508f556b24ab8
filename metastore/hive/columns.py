"""The columns of a Hive table of Parquet, ORC or Avro: what its descriptor says, and where a file has them.

Columns are found by name regardless of case. Old ORC writers call them all ``_col0``, ``_col1`` …: these count by
position, as do columns of Parquet under ``parquet.column.index.access`` and of ORC under
``orc.force.positional.evolution`` (properties of the table or its SerDe).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from metastore.digests import digest
from metastore.errors import FormatError
from metastore.hive.tables import FileFormat, HiveTable
from metastore.hive.types import drill_type
from metastore.model.tuple_schema import SchemaColumn, TupleSchema
from metastore.sources.table_columns import by_lower_name

_POSITION: Final = re.compile(r"_col(\d+)")
_BY_POSITION: Final = {
    FileFormat.PARQUET: "parquet.column.index.access",
    FileFormat.ORC: "orc.force.positional.evolution",
}
"""The property that makes columns of a format count by position."""


@dataclass(frozen=True)
class HiveColumns:
    """Names and types (in Drill's words) of the columns that files hold.

    ``by_position``: files have them in the table's order, whatever their names.
    """

    columns: tuple[tuple[str, str], ...]
    by_position: bool = False
    says_types: bool = True

    @classmethod
    def of(cls, table: HiveTable, format_: FileFormat) -> HiveColumns:
        """Those of ``table``, whose files are of ``format_``. FormatError for a type without counterpart."""
        columns = tuple((name, str(drill_type(type_))) for name, type_ in table.columns)
        serde = table.raw.sd.serdeInfo
        said = {**dict(serde.parameters or {} if serde else {}), **table.parameters}
        wanted = _BY_POSITION.get(format_)
        given = {key.lower(): str(value).lower() for key, value in said.items()}
        return cls(columns, wanted is not None and given.get(wanted) == "true")

    @cached_property
    def schema(self) -> TupleSchema:
        """As :attr:`metastore.sources.table_columns.TableColumns.schema`."""
        return TupleSchema(tuple(SchemaColumn(name, type_) for name, type_ in self.columns))

    def places(self, names: Sequence[str]) -> Mapping[str, str]:
        """As :meth:`metastore.sources.table_columns.TableColumns.places`."""
        positions = [_POSITION.fullmatch(name) for name in names]
        if names and all(positions):
            numbered = {int(found.group(1)): name for found, name in zip(positions, names, strict=True) if found}
        elif self.by_position:
            numbered = dict(enumerate(names))
        else:
            return self._by_name(names)
        return {name: numbered[place] for place, (name, _) in enumerate(self.columns) if place in numbered}

    @cached_property
    def state(self) -> bytes:
        """Another one where the columns, or the way to find them, are others."""
        return digest(repr((self.columns, self.by_position)), 8)

    def _by_name(self, names: Sequence[str]) -> Mapping[str, str]:
        found = by_lower_name(names)
        places = {}
        for name, _ in self.columns:
            several = found.get(name.lower(), [])
            if len(several) > 1:
                raise FormatError(
                    f"column {name} may be any of {', '.join(several)} in it: Hive knows no case; write it anew"
                )
            if several:
                places[name] = several[0]
        return places
