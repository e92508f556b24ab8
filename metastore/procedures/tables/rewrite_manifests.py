"""``rewrite_manifests`` clusters the entries of data manifests by partition, in manifests of even size.

A reader skips a manifest by the ranges of its partition values, so entries of one partition belong in one manifest.
Files and rows are not changed. One snapshot of operation ``replace`` has the entries as existing ones, with their
sequence numbers. Manifests that are already clustered stay, and so do delete manifests and those of other specs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyiceberg.manifest import ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table import Table, TableProperties
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from metastore.errors import FormatError, InvalidRequestError, ProcedureError
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.iceberg.manifests.avro_file import encoded_bytes
from metastore.lake.iceberg.manifests.manifest_reader import read_list, read_live_entries
from metastore.lake.iceberg.manifests.manifests import existing, live_count
from metastore.lake.iceberg.snapshots.contention import until_won
from metastore.lake.iceberg.snapshots.snapshot import NewSnapshot
from metastore.lake.iceberg.snapshots.summaries import summarize
from metastore.lake.iceberg.snapshots.sweep import FileKind
from metastore.procedures.files.guards import require_foreign, require_written_version
from metastore.procedures.files.inventory import FILE_ROW
from metastore.procedures.framework.declaration import Integer, procedure
from metastore.procedures.framework.model import CallContext, columns

_COUNTS: Final = (
    "rewritten_manifests_count",
    "added_manifests_count",
    "kept_manifests_count",
    "processed_entries_count",
)
_RESULT: Final = columns(
    **dict.fromkeys(_COUNTS, pa.int64()),
    message=pa.string(),
    files=pa.list_(FILE_ROW),
)
_DRY: Final = "dry run: nothing was changed; the files stay for as long as older snapshots do"


@procedure(result=_RESULT)
def rewrite_manifests(
    context: CallContext,
    *,
    schema: str,
    table_name: str,
    spec_id: Integer | None = None,
    sort_by: list[str] | None = None,
    dry_run: bool = False,
) -> Mapping[str, Any]:
    """Clusters the entries of data manifests by partition, in manifests of even size."""
    if sort_by is not None and not sort_by:
        raise InvalidRequestError("sort_by must not be empty when provided")
    target = context.table(schema, table_name)
    require_foreign(target, "every commit keeps its manifests clustered already")
    rewrite = _Rewrite(target, spec_id, tuple(sort_by or ()), context.now_ms, dry_run)
    return until_won(target, context.settings.iceberg.commit.timeout, rewrite.attempt)


@dataclass(frozen=True)
class _Rewrite:
    target: TargetTable
    spec_id: int | None
    sort_by: tuple[str, ...]
    now_ms: Callable[[], int]
    dry_run: bool

    def attempt(self, table: Table) -> Mapping[str, Any]:
        """One try on ``table``; CommitFailedException if a race was lost. Manifests of other specs stay."""
        require_written_version(table, self.target)
        metadata = table.metadata
        spec_id = metadata.default_spec_id if self.spec_id is None else self.spec_id
        spec = metadata.specs().get(spec_id)
        if spec is None:
            raise InvalidRequestError(f"Given spec id does not exist: {spec_id}")
        order = _order(spec, self.sort_by)
        snapshot = metadata.current_snapshot()
        if snapshot is None:
            return _nothing("the table has no snapshot")
        manifests = _manifests(table, snapshot)
        candidates = [m for m in manifests if m.content == ManifestContent.DATA and m.partition_spec_id == spec_id]
        if not candidates:
            return _nothing(f"no data manifests of partition spec {spec_id}")
        entries = {m.manifest_path: _entries(table, m) for m in candidates}
        groups = split_entries([entry for each in entries.values() for entry in each], order, _target_bytes(table))
        return self._commit(table, snapshot, manifests, entries, groups)

    def _commit(
        self,
        table: Table,
        parent: Snapshot,
        manifests: Sequence[ManifestFile],
        entries: Mapping[str, Sequence[ManifestEntry]],
        groups: Sequence[Sequence[ManifestEntry]],
    ) -> Mapping[str, Any]:
        """Write only groups that no manifest holds as it is; nothing is committed if all are there."""
        standing: dict[_Content, list[str]] = {}
        for path, of_manifest in entries.items():
            if of_manifest:
                standing.setdefault(_content(of_manifest), []).append(path)
        good: set[str] = set()
        wanting: list[Sequence[ManifestEntry]] = []
        for group in groups:
            if found := standing.get(_content(group)):
                good.add(found.pop())
            else:
                wanting.append(group)
        replaced = entries.keys() - good
        if not replaced:
            return _nothing("the manifests are clustered already", kept=len(entries))
        counts = {
            "rewritten_manifests_count": len(replaced),
            "added_manifests_count": len(wanting),
            "kept_manifests_count": len(manifests) - len(replaced),
            "processed_entries_count": sum(len(entries[path]) for path in replaced),
        }
        if self.dry_run:
            left = [manifest for manifest in manifests if manifest.manifest_path in replaced]
            return {**counts, "message": _DRY, "files": list(map(_file_row, left))}
        new = NewSnapshot(table, self.now_ms())
        spec_id = next(m.partition_spec_id for m in manifests if m.manifest_path in replaced)
        with new.taken_back_unless_published():
            made = [new.write_manifest([existing(entry) for entry in group], spec_id) for group in wanting]
            kept = [manifest for manifest in manifests if manifest.manifest_path not in replaced]
            _require_same_count(manifests, [*made, *kept])
            new.publish(self.target, [*made, *kept], _summary(parent, counts))
        return {**counts, "message": "", "files": None}


def split_entries(
    entries: Sequence[ManifestEntry], order: Sequence[int], target_bytes: int
) -> list[Sequence[ManifestEntry]]:
    """Returns ``entries`` sorted by the partition values at the positions ``order``, split into parts of even size.

    A part has at most about ``target_bytes`` before compression. The split depends on the entries alone, so a table
    that was split before gets the same parts again.
    """
    if not entries:
        return []
    sizes = [len(known.content) for entry in entries if (known := encoded_bytes(entry.data_file)) is not None]
    average = sum(sizes) / max(1, len(sizes))
    most = max(1, int(target_bytes / max(1.0, average)))
    parts = -(-len(entries) // most)
    ordered = sorted(entries, key=lambda entry: (*_key(entry, order), *_identity(entry)))
    bounds = [len(ordered) * part // parts for part in range(parts + 1)]
    return [ordered[first:last] for first, last in pairwise(bounds)]


def _key(entry: ManifestEntry, order: Sequence[int]) -> tuple[Any, ...]:
    values = (entry.data_file.partition[position] for position in order)
    return tuple((value is not None, value) if value is not None else (False,) for value in values)


def _order(spec: PartitionSpec, sort_by: Sequence[str]) -> list[int]:
    """Returns the positions of all partition fields, ``sort_by`` first. Raises InvalidRequestError for unknown ones."""
    names = [field.name for field in spec.fields]
    unknown = [name for name in sort_by if name not in names]
    if unknown:
        raise InvalidRequestError(
            f"sort_by: partition spec {spec.spec_id} has no field {', '.join(unknown)}; it has "
            f"{', '.join(names) or 'none'}"
        )
    return [names.index(name) for name in (*sort_by, *(name for name in names if name not in sort_by))]


def _manifests(table: Table, snapshot: Snapshot) -> Sequence[ManifestFile]:
    try:
        return read_list(table.io, snapshot.manifest_list)
    except FileNotFoundError as error:
        raise FormatError(f"the manifest list of snapshot {snapshot.snapshot_id} is missing: {error}") from error


def _entries(table: Table, manifest: ManifestFile) -> Sequence[ManifestEntry]:
    try:
        return read_live_entries(table.io, manifest)
    except FileNotFoundError as error:
        raise FormatError(f"a manifest of the current snapshot is missing: {error}") from error


_Content: TypeAlias = frozenset[tuple[tuple[str, int], int]]
"""The content of a manifest: the number of entries by file and sequence number. A file that was added twice has two."""


def _content(entries: Sequence[ManifestEntry]) -> _Content:
    return frozenset(Counter(map(_identity, entries)).items())


def _identity(entry: ManifestEntry) -> tuple[str, int]:
    return entry.data_file.file_path, entry.sequence_number or 0


def _target_bytes(table: Table) -> int:
    name, default = TableProperties.MANIFEST_TARGET_SIZE_BYTES, TableProperties.MANIFEST_TARGET_SIZE_BYTES_DEFAULT
    text = table.metadata.properties.get(name)
    try:
        return default if text is None else int(text)
    except ValueError as error:
        raise FormatError(f"table property {name} of {table.metadata.location} is no number: {text!r}") from error


def _require_same_count(before: Sequence[ManifestFile], after: Sequence[ManifestFile]) -> None:
    counts = [sum(live_count(manifest) for manifest in manifests) for manifests in (before, after)]
    if counts[0] != counts[1]:
        raise ProcedureError(
            f"Replaced and created manifests must have the same number of active files: {counts[0]} and {counts[1]}"
        )


def _summary(parent: Snapshot, counts: Mapping[str, int]) -> Summary:
    notes = {
        "manifests-created": str(counts["added_manifests_count"]),
        "manifests-kept": str(counts["kept_manifests_count"]),
        "manifests-replaced": str(counts["rewritten_manifests_count"]),
        "entries-processed": str(counts["processed_entries_count"]),
    }
    return summarize(Operation.REPLACE, notes, parent)


def _file_row(manifest: ManifestFile) -> dict[str, Any]:
    return {"location": manifest.manifest_path, "kind": FileKind.MANIFEST.value, "bytes": manifest.manifest_length}


def _nothing(why: str, kept: int = 0) -> Mapping[str, Any]:
    return {
        **dict.fromkeys(_COUNTS, 0),
        "kept_manifests_count": kept,
        "message": f"nothing was rewritten: {why}",
        "files": None,
    }
