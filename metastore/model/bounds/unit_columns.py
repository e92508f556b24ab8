"""Units of one level as columns: the facts that pruning needs of segments, files and row groups, decoded once.

Repeated texts (folders, schemas) are kept once. Statistics are kept only for the columns that a query needs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.model.bounds.statistics_columns import StatisticsColumns
from metastore.model.bounds.statistics_texts import decode_texts
from metastore.model.mapping.recorded_numbers import recorded_numbers
from metastore.model.vocabulary import IDENTIFIER_SEPARATOR, Statistic

Longs = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, eq=False)
class CodedTexts:
    """A column of texts: each row's index in ``names``, -1 for none."""

    codes: np.ndarray[Any, np.dtype[np.int32]]
    names: Sequence[str]

    @classmethod
    def of(cls, column: pa.ChunkedArray[Any] | pa.Array[Any]) -> CodedTexts:
        """The texts of an Arrow column."""
        whole: Any = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        encoded = whole.dictionary_encode()
        names: list[Any] = encoded.dictionary.to_pylist()
        return cls(pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False), names)

    @classmethod
    def of_texts(cls, texts: Sequence[str]) -> CodedTexts:
        """The texts of a list."""
        return cls.of(pa.array(texts, pa.string()))

    @classmethod
    def join(cls, columns: Iterable[CodedTexts]) -> CodedTexts:
        """The rows of all ``columns``, one after the other; a text may occur in ``names`` several times."""
        names: list[str] = []
        codes: list[Any] = [np.zeros(0, np.int32)]
        for column in columns:
            codes.append(np.where(column.codes < 0, -1, column.codes + len(names)))
            names += column.names
        return cls(np.concatenate(codes).astype(np.int32), names)

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        return int(self.codes.nbytes) + sum(map(len, self.names))

    def take(self, positions: Any) -> CodedTexts:
        """The rows at ``positions``."""
        return CodedTexts(self.codes[positions], self.names)


@dataclass(frozen=True, eq=False)
class UnitColumns:
    """Units of one level: their schemas (in Drill's JSON), and statistics by column (a quoted path)."""

    schemas: CodedTexts
    by_column: Mapping[str, StatisticsColumns]

    @classmethod
    def of(cls, units: pa.Table, columns: Collection[str]) -> UnitColumns:
        """Decodes ``units`` in on-disk columns, with the statistics of ``columns``."""
        maps = _whole(units["columnsStatistics"]) if columns else None
        by_column = {column: decode_texts(pc.map_lookup(maps, pa.scalar(column), "first")) for column in columns}
        return cls(CodedTexts.of(units["schema"]), by_column)

    def __len__(self) -> int:
        return len(self.schemas.codes)

    def take(self, positions: Any) -> UnitColumns:
        """The units at ``positions``."""
        by_column = {column: known.take(positions) for column, known in self.by_column.items()}
        return UnitColumns(self.schemas.take(positions), by_column)

    def beside(self, other: UnitColumns) -> UnitColumns:
        """These units with the additional statistics that ``other`` has of the same units."""
        return UnitColumns(self.schemas, {**other.by_column, **self.by_column})

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes; schemas count once, since nearly all units of a table share the same texts."""
        return self.schemas.nbytes + sum(known.nbytes for known in self.by_column.values())


@dataclass(frozen=True, eq=False)
class FileUnits:
    """FILE units: paths, folders by their identifiers, and the recorded sizes and times of modification.

    Sizes are in bytes, times in epoch nanoseconds; :data:`metastore.model.mapping.recorded_numbers.UNKNOWN` if not
    recorded.
    """

    paths: pa.Array[Any]
    folders: CodedTexts
    sizes: Longs
    times: Longs
    columns: UnitColumns

    @classmethod
    def of(cls, units: pa.Table, columns: Collection[str]) -> FileUnits:
        """Decodes ``units`` in on-disk columns, with the statistics of ``columns``."""
        holders = _whole(units["metadataStatistics"])
        sizes, times = recorded_numbers(holders, Statistic.LENGTH, Statistic.MODIFICATION_TIME_NANOS)
        return cls(
            _whole(units["path"]),
            folders_of(units["metadataIdentifier"]),
            sizes,
            times,
            UnitColumns.of(units, columns),
        )

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def nbytes(self) -> int:
        """Approximate size in bytes."""
        numbers = self.sizes.nbytes + self.times.nbytes
        return self.paths.nbytes + self.folders.nbytes + numbers + self.columns.nbytes


def _whole(column: pa.ChunkedArray[Any]) -> Any:
    # combine_chunks copies even a single chunk, and the map column is by far the largest.
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def folders_of(identifiers: pa.ChunkedArray[Any]) -> CodedTexts:
    """The folder that each file's identifier names, "" for the table's own."""
    texts: list[Any] = identifiers.to_pylist()
    names: dict[str, int] = {}
    codes = [names.setdefault(text.rpartition(IDENTIFIER_SEPARATOR)[0], len(names)) for text in texts]
    return CodedTexts(np.array(codes, np.int32), list(names))
