"""The live files of one snapshot by content, read from its manifests; a condition may limit the data files."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.visitors import (
    bind,
    expression_evaluator,
    extract_field_ids,
    inclusive_projection,
    manifest_evaluator,
)
from pyiceberg.io import FileIO
from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.snapshots import Snapshot
from pyiceberg.typedef import Record
from pyiceberg.types import PrimitiveType

from metastore.errors import StorageError
from metastore.ground.threads import Threads
from metastore.lake.iceberg.catalogs.iceberg_private import metrics_evaluator
from metastore.lake.iceberg.columns.schemas import schema_of
from metastore.lake.iceberg.columns.version_3_fields import content_offset
from metastore.lake.iceberg.manifests.believed_metrics import Metrics, believed_manifest, primitive_leaves
from metastore.lake.iceberg.manifests.manifest_reader import read_list, read_live_entries

_THREADS: Final = 8


class EntryKey(NamedTuple):
    """What identifies an entry of a manifest; ``offset`` is 0 but for deletion vectors."""

    path: str
    sequence_number: int
    offset: int = 0


class LiveFile(NamedTuple):
    """A data or delete file in a snapshot; ``added_number`` is the sequence number of the commit that added it."""

    file: DataFile
    sequence_number: int
    manifest: str
    added_number: int = 0

    @property
    def path(self) -> str:
        """The file's location, spelled as in the manifest."""
        return self.file.file_path

    @property
    def entry(self) -> EntryKey:
        """Path, sequence number, and place in the file: identifies an entry across snapshots.

        A file that was added twice has two such entries. A Puffin file has one for each of its deletion vectors.
        """
        return EntryKey(self.path, self.sequence_number, content_offset(self.file) or 0)

    @property
    def place(self) -> Place:
        """The manifest, and what the entry in it is of, which may stand there more than once."""
        return self.manifest, self.entry


@dataclass(frozen=True)
class LiveFiles:
    """The live files of one snapshot, by content; a filter may limit the data files.

    ``manifests`` are the paths of all its manifests.
    """

    data: tuple[LiveFile, ...]
    position_deletes: tuple[LiveFile, ...]
    equality_deletes: tuple[LiveFile, ...]
    manifests: frozenset[str] = frozenset()

    @property
    def deletes(self) -> tuple[LiveFile, ...]:
        """The delete files of both kinds."""
        return self.position_deletes + self.equality_deletes


Place: TypeAlias = tuple[str, EntryKey]


def live_file(entry: ManifestEntry, manifest: ManifestFile) -> LiveFile:
    """Return the file of a live entry."""
    number = entry.sequence_number or 0
    return LiveFile(entry.data_file, number, manifest.manifest_path, entry.file_sequence_number or number)


def live_files(
    metadata: TableMetadata,
    io: FileIO,
    snapshot: Snapshot,
    expression: BooleanExpression | None = None,
    without: Collection[str] = (),
) -> LiveFiles:
    """Return the live files of ``snapshot``; data files only if they can hold a row matching ``expression``.

    ``expression`` must fit the current schema. It does not limit delete files: they may hold other columns of the
    deleted rows, whose bounds say nothing about them. Manifests whose paths are in ``without`` are not read. Raises
    StorageError if a manifest cannot be read.
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
        manifests = read_list(io, snapshot.manifest_list)
        wanted = [
            manifest
            for manifest in manifests
            if manifest.manifest_path not in without
            and (
                manifest.content == ManifestContent.DELETES
                or not tests
                or tests[manifest.partition_spec_id].manifest(manifest)
            )
        ]
        with Threads(_THREADS, "metastore-manifests") as threads:
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


def partition_test(
    metadata: TableMetadata, spec: PartitionSpec, expression: BooleanExpression
) -> Callable[[Record], bool]:
    """Return a test of partitions of ``spec``: False only if no row of the partition can match ``expression``."""
    required = inclusive_projection(metadata.schema(), spec, case_sensitive=True)(expression)
    partitions = Schema(*spec.partition_type(schema_of(metadata, spec)).fields)
    return expression_evaluator(partitions, required, case_sensitive=True)


@dataclass(frozen=True)
class _FileTest:
    """A filter compiled for manifests and files of one spec."""

    manifest: Callable[[ManifestFile], bool]
    file: Callable[[DataFile], bool]

    @classmethod
    def of(cls, metadata: TableMetadata, spec: PartitionSpec, expression: BooleanExpression) -> _FileTest:
        """The test for files of ``spec``. Manifests whose ranges are not believed may always match."""
        schema = schema_of(metadata, spec)
        required = inclusive_projection(metadata.schema(), spec, case_sensitive=True)(expression)
        partitions = Schema(*spec.partition_type(schema).fields)
        of_partition = partition_test(metadata, spec, expression)
        of_metrics = metrics_evaluator(metadata.schema(), expression)
        of_manifest = manifest_evaluator(spec, schema, required, case_sensitive=True)
        types = [field.field_type for field in partitions.fields if isinstance(field.field_type, PrimitiveType)]
        used = extract_field_ids(bind(metadata.schema(), expression, case_sensitive=True))
        fields = [field for field in primitive_leaves(metadata.schema()) if field.field_id in used]
        metrics = Metrics.of(metadata.properties)

        def may_match(manifest: ManifestFile) -> bool:
            believed = believed_manifest(manifest, types)
            return believed is None or of_manifest(believed)

        return cls(may_match, lambda file: of_partition(file.partition) and of_metrics(metrics.file(file, fields)))
