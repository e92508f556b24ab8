"""The data files that exist now, as columns: the input that pruning compares with the analyzed files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.lake.formats.source_file import SourceFile
from metastore.model.bounds.unit_columns import CodedTexts, Longs
from metastore.model.vocabulary import IDENTIFIER_SEPARATOR
from metastore.sources.directories import directories_of


@dataclass(frozen=True, eq=False)
class ListedFiles:
    """The files of a listing: distinct paths, sizes in bytes, and modification times in epoch nanoseconds."""

    paths: pa.Array[Any]
    sizes: Longs
    times: Longs

    @classmethod
    def of_files(cls, files: Sequence[SourceFile]) -> ListedFiles:
        """The listed ``files``; of several with one path, the last counts."""
        return cls._distinct(
            [file.path for file in files], [file.size for file in files], [file.mtime_ns for file in files]
        )

    @classmethod
    def of(cls, fingerprints: Mapping[str, tuple[int, int]]) -> ListedFiles:
        """Files from ``fingerprints``: size and modification time by path."""
        values = fingerprints.values()
        return cls._distinct(list(fingerprints), [size for size, _ in values], [time for _, time in values])

    @classmethod
    def _distinct(cls, paths: Sequence[str], sizes: Sequence[int], times: Sequence[int]) -> ListedFiles:
        encoded: Any = pa.array(paths, pa.string()).dictionary_encode()
        last = np.zeros(len(encoded.dictionary), np.int64)
        last[encoded.indices.to_numpy()] = np.arange(len(paths))
        return cls(encoded.dictionary, np.array(sizes, np.int64)[last], np.array(times, np.int64)[last])

    def __len__(self) -> int:
        return len(self.paths)

    def places_of(self, paths: pa.ChunkedArray[Any]) -> Longs:
        """The position of each path in the listing, -1 if the path is not listed."""
        positions: Any = pc.index_in(paths, self.paths)
        return np.asarray(positions.fill_null(-1).to_numpy(), np.int64)

    def times_by_path(self) -> dict[str, int]:
        """The modification time of each file."""
        paths: list[Any] = self.paths.to_pylist()
        return dict(zip(paths, self.times.tolist(), strict=True))

    def folders(self, places: Longs, root: str) -> CodedTexts:
        """The folder below ``root`` of each file at ``places``, in the form of file identifiers."""
        codes: list[int] = []
        code_of: dict[str, int] = {}
        names: list[str] = []
        paths: list[Any] = self.paths.take(places).to_pylist()
        for path in paths:
            parent = path.rpartition("/")[0]
            code = code_of.setdefault(parent, len(names))
            if code == len(names):
                names.append(IDENTIFIER_SEPARATOR.join(directories_of(path, root)))
            codes.append(code)
        return CodedTexts(np.array(codes, np.int32), names)
