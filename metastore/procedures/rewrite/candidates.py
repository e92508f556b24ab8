"""Which data files of the pinned snapshot a filter means, and which position delete files may name them.

A filter picks files and never rows: a file is a candidate when its partition and bounds leave open that a row of it
matches, and then it is rewritten whole. What cannot be rewritten with all its rows kept right is refused here, before
anything is written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import expression_evaluator, inclusive_projection, manifest_evaluator
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record

from metastore.errors import ProcedureError, StorageError
from metastore.iceberg.data_file import READABLE
from metastore.iceberg.iceberg_private import metrics_evaluator
from metastore.iceberg.manifest_reader import read_live_entries
from metastore.iceberg.schemas import PATH_ID, schema_of
from metastore.procedures.rewrite.groups import Candidate, LiveFile

_THREADS: Final = 8


@dataclass(frozen=True)
class LiveFiles:
    """The live files of one snapshot, by what they hold; data files may be limited to those that a filter means.

    ``manifests`` are the paths of all its manifests.
    """

    data: tuple[LiveFile, ...]
    position_deletes: tuple[LiveFile, ...]
    equality_deletes: tuple[LiveFile, ...]
    manifests: frozenset[str] = frozenset()


class Deletes:
    """Delete files by what they may apply to."""

    def __init__(self, files: Iterable[LiveFile], unpartitioned: frozenset[int]) -> None:
        self._by_path: dict[str, list[LiveFile]] = {}
        self._by_partition: dict[tuple[int, Record], list[LiveFile]] = {}
        self._everywhere: list[LiveFile] = []
        for live in files:
            path = only_path(live.file)
            if path is not None:
                self._by_path.setdefault(path, []).append(live)
            elif live.file.content == DataFileContent.EQUALITY_DELETES and live.file.spec_id in unpartitioned:
                self._everywhere.append(live)
            else:
                self._by_partition.setdefault((live.file.spec_id, live.file.partition), []).append(live)

    def of(self, data: LiveFile) -> list[LiveFile]:
        """Delete files that may apply to rows of ``data``, by path, partition and sequence number."""
        key = (data.file.spec_id, data.file.partition)
        near = [*self._by_path.get(data.path, ()), *self._by_partition.get(key, ()), *self._everywhere]
        return [live for live in near if applies(live, data)]


def applies(delete: LiveFile, data: LiveFile) -> bool:
    """Whether ``delete``, which is of the partition or of everywhere, may apply to rows of ``data``."""
    if delete.file.content == DataFileContent.EQUALITY_DELETES:
        return delete.sequence_number > data.sequence_number
    if delete.sequence_number < data.sequence_number:
        return False
    path = data.path.encode()
    lower = (delete.file.lower_bounds or {}).get(PATH_ID)
    upper = (delete.file.upper_bounds or {}).get(PATH_ID)
    # Bounds of texts may be cut short; a lower one stays below, and an upper one is rounded up.
    return (lower is None or lower <= path) and (upper is None or path <= upper)


def only_path(file: DataFile) -> str | None:
    """The one data file that a position delete file names, when its bounds prove that there is one."""
    if file.content != DataFileContent.POSITION_DELETES:
        return None
    lower = (file.lower_bounds or {}).get(PATH_ID)
    upper = (file.upper_bounds or {}).get(PATH_ID)
    return lower.decode() if lower is not None and lower == upper else None


def unpartitioned_specs(metadata: TableMetadata) -> frozenset[int]:
    """Ids of the specs that divide nothing: equality deletes of these apply to the whole table."""
    return frozenset(spec.spec_id for spec in metadata.partition_specs if not spec.fields)


def live_file(entry: ManifestEntry, manifest: ManifestFile) -> LiveFile:
    """The file of a live entry."""
    return LiveFile(entry.data_file, entry.sequence_number or 0, manifest.manifest_path)


def live_files(
    metadata: TableMetadata, io: FileIO, snapshot: Snapshot, expression: BooleanExpression | None = None
) -> LiveFiles:
    """The live files of ``snapshot``; of data files only those that can hold a row matching ``expression``.

    ``expression`` must fit the current schema. Raises StorageError when a manifest cannot be read.
    """
    tests: dict[int, _FileTest] = {}
    if expression is not None:
        tests = {spec.spec_id: _FileTest.of(metadata, spec, expression) for spec in metadata.partition_specs}

    def read(manifest: ManifestFile) -> list[LiveFile]:
        test = tests.get(manifest.partition_spec_id) if manifest.content == ManifestContent.DATA else None
        return [
            live_file(entry, manifest)
            for entry in read_live_entries(io, manifest)
            if test is None or test.file(entry.data_file)
        ]

    try:
        manifests = snapshot.manifests(io)
        wanted = [
            manifest
            for manifest in manifests
            if manifest.content == ManifestContent.DELETES
            or not tests
            or tests[manifest.partition_spec_id].manifest(manifest)
        ]
        with ThreadPoolExecutor(_THREADS, "metastore-rewrite") as threads:
            found = [live for part in threads.map(read, wanted) for live in part]
    except OSError as error:
        raise StorageError(f"cannot read the manifests of snapshot {snapshot.snapshot_id}: {error}") from error
    by_content: dict[DataFileContent, list[LiveFile]] = {content: [] for content in DataFileContent}
    for live in found:
        by_content[live.file.content].append(live)
    return LiveFiles(
        tuple(by_content[DataFileContent.DATA]),
        tuple(by_content[DataFileContent.POSITION_DELETES]),
        tuple(by_content[DataFileContent.EQUALITY_DELETES]),
        frozenset(manifest.manifest_path for manifest in manifests),
    )


def candidates(files: LiveFiles, unpartitioned: frozenset[int]) -> list[Candidate]:
    """The data files with their position deletes."""
    deletes = Deletes(files.position_deletes, unpartitioned)
    found = []
    for live in files.data:
        near = deletes.of(live)
        own = tuple(delete for delete in near if only_path(delete.file) is not None)
        found.append(Candidate(live, tuple(near), own))
    return found


def refuse_what_is_not_served(
    name: str, chosen: Sequence[Candidate], files: LiveFiles, unpartitioned: frozenset[int]
) -> None:
    """Raise ProcedureError when a file that is to be rewritten, or a delete of it, is of a kind that is not served."""
    equality = Deletes(files.equality_deletes, unpartitioned)
    for candidate in chosen:
        path = candidate.live.path
        if found := equality.of(candidate.live):
            raise ProcedureError(
                f"{name} has equality deletes that apply to {path} (in {found[0].path}), and these are not served: "
                "a rewrite without them would bring deleted rows back. Nothing was changed; rewrite it with the engine "
                "that writes them"
            )
        for file in (candidate.live.file, *(delete.file for delete in candidate.deletes)):
            if file.file_format not in READABLE:
                raise ProcedureError(
                    f"{file.file_path} of {name} is {file.file_format.value}, which is not read. Nothing was changed; "
                    "choose other files by filter"
                )


@dataclass(frozen=True)
class _FileTest:
    """What a filter requires of manifests and files of one spec."""

    manifest: Callable[[ManifestFile], bool]
    file: Callable[[DataFile], bool]

    @classmethod
    def of(cls, metadata: TableMetadata, spec: PartitionSpec, expression: BooleanExpression) -> _FileTest:
        schema = schema_of(metadata, spec)
        required = inclusive_projection(metadata.schema(), spec, case_sensitive=True)(expression)
        partitions = Schema(*spec.partition_type(schema).fields)
        of_partition = expression_evaluator(partitions, required, case_sensitive=True)
        of_metrics = metrics_evaluator(metadata.schema(), expression)
        return cls(
            manifest_evaluator(spec, schema, required, case_sensitive=True),
            lambda file: of_partition(file.partition) and of_metrics(file),
        )
