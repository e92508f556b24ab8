"""The columns of a Hive table of Parquet, ORC or Avro: their types in the descriptor, and their places in a file.

Columns are matched by name, ignoring case. There are two exceptions, which are matched by position. One is files of old
ORC writers, whose columns are all called ``_col0``, ``_col1`` …. The other is Parquet with
``parquet.column.index.access`` and ORC with ``orc.force.positional.evolution``, properties of the table or its SerDe.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from metastore.errors import FormatError
from metastore.ground.digests import digest
from metastore.model.tuple_schema import SchemaColumn, TupleSchema
from metastore.sources.hive.tables import HiveFormat, HiveTable
from metastore.sources.hive.types import drill_type
from metastore.sources.table_columns import by_lower_name

_POSITION: Final = re.compile(r"_col(\d+)")
_BY_POSITION: Final = {
    HiveFormat.PARQUET: "parquet.column.index.access",
    HiveFormat.ORC: "orc.force.positional.evolution",
}
"""For each format, the property that switches to matching columns by position."""


@dataclass(frozen=True)
class HiveColumns:
    """Names and types (Drill's) of the columns that files contain.

    ``by_position``: files have the columns in the table's order, with any names.
    """

    columns: tuple[tuple[str, str], ...]
    by_position: bool = False
    says_types: bool = True

    @classmethod
    def of(cls, table: HiveTable, format_: HiveFormat) -> HiveColumns:
        """Returns the columns of ``table``, whose files are of ``format_``.

        Raises FormatError for unsupported types.
        """
        columns = tuple((name, str(drill_type(type_))) for name, type_ in table.columns)
        serde = table.raw.sd.serdeInfo
        properties = {**dict(serde.parameters or {} if serde else {}), **table.parameters}
        wanted = _BY_POSITION.get(format_)
        given = {key.lower(): str(value).lower() for key, value in properties.items()}
        return cls(columns, wanted is not None and given.get(wanted) == "true")

    @cached_property
    def schema(self) -> TupleSchema:
        """See :attr:`metastore.sources.table_columns.TableColumns.schema`."""
        return TupleSchema(tuple(SchemaColumn(name, type_) for name, type_ in self.columns))

    def places(self, names: Sequence[str]) -> Mapping[str, str]:
        """See :meth:`metastore.sources.table_columns.TableColumns.places`."""
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
        """A digest of the columns and of the way to find them."""
        return digest(repr((self.columns, self.by_position)), 8)

    def _by_name(self, names: Sequence[str]) -> Mapping[str, str]:
        found = by_lower_name(names)
        places = {}
        for name, _ in self.columns:
            several = found.get(name.lower(), [])
            if len(several) > 1:
                raise FormatError(
                    f"column {name} may be any of {', '.join(several)} in it: Hive knows no case; rewrite the file"
                )
            if several:
                places[name] = several[0]
        return places
