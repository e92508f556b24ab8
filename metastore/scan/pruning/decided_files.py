"""The files that pruning keeps and the files that it skips, as columns; single files become objects on access.

There may be a million of them, so reasons are stored as numbers of tests until they are read.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from metastore.model.bounds.bound_arrays import mask_of
from metastore.model.bounds.unit_columns import CodedTexts
from metastore.scan.pruning.evaluate import Exclusion, Exclusions

_NOTHING: Final[Mapping[int, Exclusion]] = {}
"""Shared by all files without excluded row groups, since there may be a million of them."""

_AT_ONCE: Final = 1_000

_TEXTS: Final = pa.dictionary(pa.int32(), pa.string())
_KEPT: Final[list[tuple[str, pa.DataType]]] = [
    ("path", pa.string()),
    ("row_groups", pa.list_(pa.int32())),
    ("reason", _TEXTS),
    ("size", pa.int64()),
    ("schema", _TEXTS),
]
KEPT_COLUMNS: Final = pa.schema(_KEPT)
"""Arrow schema of kept files; ``row_groups`` is null if all are read, ``schema`` if it is unknown."""


@dataclass(frozen=True, slots=True)
class KeptFile:
    """One file to read: the whole file, or only the row groups in ``row_groups`` (ascending).

    ``schema`` is the file's in Drill's JSON; None for new and changed files.
    """

    path: str
    row_groups: tuple[int, ...] | None
    reason: str
    size: int | None = None
    skipped_row_groups: Mapping[int, Exclusion] = field(default_factory=lambda: _NOTHING, compare=False, repr=False)
    schema: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """One skipped file, excluded by its own statistics or directories; files of skipped segments are not listed."""

    path: str
    exclusion: Exclusion

    @property
    def reason(self) -> str:
        """Why none of its rows matches."""
        return str(self.exclusion)


F = TypeVar("F")


class Files(Sequence[F]):
    """Files in parts, each made on access. Two are equal if all of their files are equal, in the same order."""

    def __init__(self) -> None:
        self._parts: list[pa.Table] = []
        self._ends: list[int] = []

    @abstractmethod
    def _make_files(self, part: int, columns: pa.Table, first: int) -> Iterator[F]:
        """The files in ``columns``, the rows of a part from row ``first`` on."""

    def _add(self, part: pa.Table) -> None:
        self._parts.append(part)
        self._ends.append(len(self) + part.num_rows)

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0

    def __iter__(self) -> Iterator[F]:
        for part, columns in enumerate(self._parts):
            for first in range(0, columns.num_rows, _AT_ONCE):
                yield from self._make_files(part, columns.slice(first, _AT_ONCE), first)

    @overload
    def __getitem__(self, which: int) -> F: ...
    @overload
    def __getitem__(self, which: slice) -> list[F]: ...
    def __getitem__(self, which: int | slice) -> F | list[F]:
        if isinstance(which, slice):
            return [self[position] for position in range(*which.indices(len(self)))]
        position = range(len(self))[which]
        part = int(np.searchsorted(self._ends, position, "right"))
        row = position - (self._ends[part - 1] if part else 0)
        return next(self._make_files(part, self._parts[part].slice(row, 1), row))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    def __hash__(self) -> int:
        return hash(tuple(self.paths))

    @property
    def paths(self) -> list[str]:
        """The paths of all files."""
        columns: list[list[Any]] = [part["path"].to_pylist() for part in self._parts]
        return [path for paths in columns for path in paths]


class KeptFiles(Files[KeptFile]):
    """The files to read, in the columns of :data:`KEPT_COLUMNS`."""

    def __init__(self) -> None:
        super().__init__()
        self._skipped_row_groups: list[Callable[[int], Mapping[int, Exclusion]]] = []

    def add(self, part: pa.Table, skipped_row_groups: Callable[[int], Mapping[int, Exclusion]] | None = None) -> None:
        """Adds files in the columns of :data:`KEPT_COLUMNS`.

        ``skipped_row_groups`` gives a file's excluded row groups.
        """
        self._add(part)
        self._skipped_row_groups.append(skipped_row_groups or (lambda _: _NOTHING))

    @property
    def table(self) -> pa.Table:
        """All files as an Arrow table with the columns :data:`KEPT_COLUMNS`."""
        return pa.concat_tables(self._parts or [KEPT_COLUMNS.empty_table()]).unify_dictionaries()

    @property
    def size(self) -> int | None:
        """Total bytes of all files, None if one size is unknown."""
        if any(part["size"].null_count for part in self._parts):
            return None
        return sum(pc.sum(part["size"]).as_py() or 0 for part in self._parts)

    def only(self, paths: Collection[str]) -> KeptFiles:
        """The files at ``paths``."""
        found = KeptFiles()
        wanted = pa.array(list(paths), pa.string())
        for part, why in zip(self._parts, self._skipped_row_groups, strict=True):
            rows = np.flatnonzero(mask_of(pc.is_in(part["path"], wanted)))
            found.add(part.take(rows), lambda row, rows=rows, why=why: why(int(rows[row])))  # type: ignore[misc]
        return found

    def _make_files(self, part: int, columns: pa.Table, first: int) -> Iterator[KeptFile]:
        rows: list[list[Any]] = [column.to_pylist() for column in columns.columns]
        for row, (path, groups, reason, size, schema) in enumerate(zip(*rows, strict=True), first):
            if groups is None:
                yield KeptFile(path, None, reason, size, schema=schema)
            else:
                yield KeptFile(path, tuple(groups), reason, size, self._skipped_row_groups[part](row), schema)


class SkippedFiles(Files[SkippedFile]):
    """Skipped files of segments that are read, with counts by the tests that excluded them."""

    def __init__(self) -> None:
        super().__init__()
        self._why: list[Callable[[int], Exclusion]] = []
        self.by_tests: Counter[str] = Counter()

    def add(self, paths: pa.Array[Any], excluded: Exclusions) -> None:
        """Adds and counts those of the files at ``paths`` that are ``excluded``."""
        positions = np.flatnonzero(excluded.mask)
        if len(positions):
            self.by_tests.update(excluded.count_by_tests())
            self.add_each(paths.take(positions), lambda row: excluded.why(positions[row]))

    def add_each(self, paths: pa.Array[Any], why: Callable[[int], Exclusion]) -> None:
        """Adds the files at ``paths`` without counting them; ``why`` gives the reason by position."""
        self._add(pa.table({"path": paths}))
        self._why.append(why)

    def _make_files(self, part: int, columns: pa.Table, first: int) -> Iterator[SkippedFile]:
        paths: list[Any] = columns["path"].to_pylist()
        return (SkippedFile(path, self._why[part](row)) for row, path in enumerate(paths, first))


def kept_columns(
    paths: pa.Array[Any], reasons: CodedTexts, sizes: pa.Array[Any], schemas: CodedTexts | None
) -> pa.Table:
    """Whole files in the columns of :data:`KEPT_COLUMNS`; unknown sizes and ``schemas`` are null."""
    groups = pa.nulls(len(paths), KEPT_COLUMNS.field("row_groups").type)
    known = pa.nulls(len(paths), _TEXTS) if schemas is None else _dictionary(schemas)
    return pa.Table.from_arrays([paths, groups, _dictionary(reasons), sizes, known], schema=KEPT_COLUMNS)


def _dictionary(texts: CodedTexts) -> pa.Array[Any]:
    indices = pa.array(texts.codes, mask=texts.codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(texts.names, pa.string()))
