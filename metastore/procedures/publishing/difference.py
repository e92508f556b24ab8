"""What a publication changes: which manifests stay, which are written anew, and with which entries. Pure functions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus, ManifestFile
from pyiceberg.table.snapshots import Operation, Summary, update_snapshot_summaries

from metastore.lake.iceberg.manifests.compact_entries import CompactEntry, metrics_of
from metastore.lake.iceberg.manifests.manifests import deleted_entry, existing


@dataclass(frozen=True)
class Stale:
    """Manifests that hold changed segments, and share no segment with others; ``keys`` are all their segments."""

    manifests: list[ManifestFile]
    keys: set[str]


def changed_segments(before: Iterable[Mapping[str, str]], now: Mapping[str, str]) -> frozenset[str]:
    """Returns the keys of segments that came, changed or went; ``before`` has the states that manifests name."""
    known: dict[str, str | None] = {}
    for states in before:
        for key, state in states.items():
            known[key] = state if known.get(key, state) == state else None
    return frozenset(key for key in known.keys() | now.keys() if known.get(key) != now.get(key))


def divide_manifests(
    manifests: Sequence[ManifestFile], segments: Sequence[Mapping[str, str]], changed: frozenset[str]
) -> tuple[list[ManifestFile], list[Stale]]:
    """Returns the manifests that stay, and the others in groups; a segment's manifests are in one group."""
    kept, groups = [], list[Stale]()
    for manifest, states in zip(manifests, segments, strict=True):
        if changed.isdisjoint(states):
            kept.append(manifest)
            continue
        group = Stale([manifest], set(states))
        for other in [each for each in groups if each.keys & group.keys]:
            groups.remove(other)
            group = Stale([*other.manifests, *group.manifests], other.keys | group.keys)
        groups.append(group)
    whole = {key for group in groups for key in group.keys}
    for manifest, states in [(m, s) for m, s in zip(manifests, segments, strict=True) if m in kept]:
        # A manifest without changed segments shares one with a group only if it is the rest of a large segment.
        if shared := whole & set(states):
            group = next(each for each in groups if each.keys & shared)
            group.manifests.append(manifest)
            group.keys.update(states)
            kept.remove(manifest)
    return kept, groups


@dataclass
class Tally:
    """Counts of files that a publication adds and removes."""

    added: list[int] = field(default_factory=lambda: [0, 0, 0])
    removed: list[int] = field(default_factory=lambda: [0, 0, 0])
    partitions: set[tuple[Any, ...]] = field(default_factory=set)

    def add(self, entry: ManifestEntry) -> None:
        """Count one entry that is added or deleted."""
        file, counts = entry.data_file, self.added if entry.status == ManifestEntryStatus.ADDED else self.removed
        for place, count in enumerate((1, file.record_count, file.file_size_in_bytes)):
            counts[place] += count
        self.partitions.add(_partition_of(entry))

    def summary(self, previous: Mapping[str, str] | None, notes: Mapping[str, str], *, anew: bool = False) -> Summary:
        """Returns the summary of the snapshot; with ``anew`` it replaces all files of the previous one."""
        added = ("added-data-files", "added-records", "added-files-size")
        removed = ("deleted-data-files", "deleted-records", "removed-files-size")
        counts = {
            **dict(zip(added, self.added, strict=True)),
            **{name: count for name, count in zip(removed, self.removed, strict=True) if count},
            "changed-partition-count": len(self.partitions),
        }
        operation = Operation.APPEND
        if self.removed[0] or anew:
            operation = Operation.OVERWRITE if self.added[0] or anew else Operation.DELETE
        texts = {name: str(count) for name, count in counts.items()}
        made = update_snapshot_summaries(Summary(operation, **texts), None if anew else previous)
        return Summary(made.operation, **{**made.additional_properties, **notes})


def entries_now(
    before: Iterable[ManifestEntry],
    found: Mapping[str, CompactEntry],
    is_changed: Callable[[str], bool],
    snapshot_id: int,
    tally: Tally,
    widened: Collection[int] = (),
) -> list[ManifestEntry]:
    """Returns the entries of manifests after a change: kept, deleted and added ones, counted in ``tally``.

    ``before`` are the live entries, ``found`` the present files of changed segments by location. ``is_changed`` says
    whether a location is in a changed segment.
    """
    left = dict(found)
    entries: list[ManifestEntry] = []
    for entry in before:
        location = entry.data_file.file_path
        if not is_changed(location):
            entries.append(existing(entry))
            continue
        new = left.get(location)
        if new is not None and is_same_file(entry, new, widened):
            entries.append(_with_new_metrics(entry, left.pop(location)))
            continue
        gone = deleted_entry(entry, snapshot_id)
        tally.add(gone)
        entries.append(gone)
    for entry in left.values():
        tally.add(entry)
    return [*entries, *left.values()]


def is_same_file(before: ManifestEntry, now: CompactEntry, widened: Collection[int]) -> bool:
    """Whether two entries of one location say the same of it, as far as the earlier one says anything.

    Bounds of the columns ``widened`` have other bytes, and are not compared.
    """
    old = before.data_file
    if (old.file_size_in_bytes, old.record_count, _partition_of(before)) != (now.size, now.rows, now.key):
        return False
    return all(
        new.get(number) == value or number in widened
        for then, new in zip(metrics_of(old), metrics_of(now.data_file), strict=True)
        for number, value in then.items()
    )


def _partition_of(entry: ManifestEntry) -> tuple[Any, ...]:
    if isinstance(entry, CompactEntry):
        return entry.key
    partition = entry.data_file.partition
    return tuple(partition[place] for place in range(len(partition)))


def _with_new_metrics(before: ManifestEntry, now: CompactEntry) -> ManifestEntry:
    return ManifestEntry.from_args(
        status=ManifestEntryStatus.EXISTING,
        snapshot_id=before.snapshot_id,
        sequence_number=before.sequence_number,
        file_sequence_number=before.file_sequence_number,
        data_file=now.data_file,
    )
