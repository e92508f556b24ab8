"""The decision over files and their row groups, portion by portion, below segments that are decided already."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from metastore.model.column_path import parse as parse_path
from metastore.pruning.containers import UnitStatistics
from metastore.pruning.evaluate import Evaluation, Exclusion
from metastore.pruning.file_columns import FileColumns
from metastore.pruning.known_files import FileUnits, KnownFiles
from metastore.pruning.result import KeptFile, SkippedFile
from metastore.pruning.units import Portion
from metastore.sources.directories import DirectoryColumns


@dataclass
class FileDecisions:
    """What was decided of the unchanged files so far; ``why_not`` returns what excludes a folder's segment.

    Without a listing, ``known`` meets the files here.
    """

    known: KnownFiles
    directories: DirectoryColumns
    evaluation: Evaluation
    why_not: Callable[[str], Exclusion | None]
    spellings: Mapping[str, Sequence[str]] = field(default_factory=dict)
    pseudo: FileColumns = field(default_factory=FileColumns)
    kept: list[KeptFile] = field(default_factory=list)
    skipped: list[SkippedFile] = field(default_factory=list)
    row_groups_kept: int = 0
    judged: bool = False
    """Whether statistics of any file were asked for."""

    def decide(self, portion: Portion) -> None:
        """Decide the files of ``portion``; each file once."""
        candidates: list[KeptFile] = []
        folders: dict[str, str] = {}
        for units in portion.files():
            files = FileUnits(units)
            if self.known.listing is None:
                self.known.meet(files)
            candidates += self._files(files, folders)
        inside, outside = self._row_groups(portion, folders)
        for file in candidates:
            excluded = outside.get(file.path)
            if not excluded:
                self.kept.append(file)
            elif left := inside.get(file.path):
                self.kept.append(replace(file, row_groups=tuple(sorted(left)), skipped_row_groups=excluded))
            else:
                causes = Exclusion(cause for why in excluded.values() for cause in why)
                self.skipped.append(SkippedFile(file.path, causes))

    def _files(self, files: FileUnits, folders: dict[str, str]) -> list[KeptFile]:
        """Those that their own statistics leave; their folders come into ``folders``, by path."""
        known, paths = self.known, files.paths
        in_doubt = [
            i
            for i, (path, folder) in enumerate(zip(paths, files.folders, strict=True))
            if known.is_unchanged(path) and not self.why_not(folder)
        ]
        self.judged = self.judged or bool(in_doubt)
        statistics = UnitStatistics(files.units, files.folders, self.directories, self.spellings)
        excluded = self.evaluation.exclude(in_doubt, self.pseudo.beside(statistics, paths))
        self.skipped.extend(SkippedFile(paths[i], exclusion) for i, exclusion in excluded.items())
        left = [i for i in in_doubt if i not in excluded]
        folders.update((paths[i], files.folders[i]) for i in left)
        sizes = (
            [known.size_now(paths[i]) for i in left] if known.listing is not None else [files.sizes[i] for i in left]
        )
        schemas = _shared(files.units["schema"], left)
        return [
            KeptFile(paths[i], None, _reason(statistics.lacking(i)), size, schema=schema)
            for i, size, schema in zip(left, sizes, schemas, strict=True)
        ]

    def _row_groups(
        self, portion: Portion, folders: dict[str, str]
    ) -> tuple[dict[str, list[int]], dict[str, dict[int, Exclusion]]]:
        """Of the files in ``folders``: their row groups that are left, and those that are excluded, by path."""
        inside: dict[str, list[int]] = {}
        outside: dict[str, dict[int, Exclusion]] = {}
        for units in portion.row_groups():
            paths: list[Any] = units["path"].to_pylist()
            if self.known.listing is None:
                self.known.meet_row_groups(paths)
            live = [i for i, path in enumerate(paths) if path in folders]
            if not live:
                continue
            mine = units if len(live) == len(paths) else units.take(pa.array(live, pa.int64()))
            excluded = self._excluded(mine, [folders[paths[i]] for i in live], [paths[i] for i in live])
            self.row_groups_kept += len(live) - len(excluded)
            indices: list[Any] = mine["rowGroupIndex"].to_pylist()
            for n, i in enumerate(live):
                if n in excluded:
                    outside.setdefault(paths[i], {})[indices[n]] = excluded[n]
                else:
                    inside.setdefault(paths[i], []).append(indices[n])
        return inside, outside

    def _excluded(self, units: pa.Table, folders: Sequence[str], paths: Sequence[str]) -> dict[int, Exclusion]:
        statistics = UnitStatistics(units, folders, self.directories, self.spellings)
        return self.evaluation.exclude(range(units.num_rows), self.pseudo.beside(statistics, paths))


def _reason(lacking: Sequence[str]) -> str:
    if not lacking:
        return "may match"
    return f"may match; no statistics for {', '.join('.'.join(parse_path(column)) for column in lacking)}"


def _shared(texts: pa.ChunkedArray[Any], positions: Sequence[int]) -> list[str | None]:
    """The texts at ``positions``, those that are equal as one object: most files of a table have the same schema."""
    found = texts.take(pa.array(positions, pa.int64())).combine_chunks().dictionary_encode()
    distinct: list[Any] = found.dictionary.to_pylist()
    return [None if index is None else distinct[index] for index in found.indices.to_pylist()]
