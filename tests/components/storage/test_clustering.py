"""Manifests as leaves: bounded, sorted, never mixed, nothing lost, and a change touches what it must."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    PartitionFieldSummary,
)
from pyiceberg.typedef import Record
from pyiceberg.types import StringType

from metastore.components.storage.clustering import LARGEST_BOUND, SMALLEST_BOUND, Change, bound_for, rewrite
from metastore.lake.iceberg.manifests.manifests import DecodedManifest, key_of
from metastore.model.mapping.rows import PartitionKey

GENERAL = "G"


def cluster(key: PartitionKey) -> int:
    """General information apart from segments."""
    return 0 if key[-1] == GENERAL else 1


def data_file(key: PartitionKey, path: str) -> DataFile:
    """A file of partition ``key``."""
    return DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=Record(*key),
        record_count=1,
        file_size_in_bytes=1,
    )


@dataclass
class Store:
    """Manifests in memory, as a commit would write and decode them; ``decoded`` counts what was opened."""

    manifests: list[ManifestFile] = field(default_factory=list)
    contents: dict[str, list[ManifestEntry]] = field(default_factory=dict)
    opened: set[str] = field(default_factory=set)
    rewritten: int = 0

    def write(self, files: Sequence[DataFile]) -> ManifestFile:
        """A manifest with live entries for ``files``, in their order."""
        path = f"m{len(self.contents)}"
        self.contents[path] = [
            ManifestEntry.from_args(
                status=ManifestEntryStatus.EXISTING,
                snapshot_id=1,
                sequence_number=1,
                file_sequence_number=1,
                data_file=file,
            )
            for file in files
        ]
        columns = zip(*(key_of(file) for file in files), strict=True)
        text = StringType()
        summaries = [
            PartitionFieldSummary(False, False, to_bytes(text, min(column)), to_bytes(text, max(column)))
            for column in columns
        ]
        return ManifestFile.from_args(
            manifest_path=path,
            manifest_length=1,
            partition_spec_id=0,
            content=ManifestContent.DATA,
            sequence_number=1,
            min_sequence_number=1,
            added_snapshot_id=1,
            added_files_count=0,
            existing_files_count=len(files),
            deleted_files_count=0,
            partitions=summaries,
        )

    def decode(self, manifest: ManifestFile) -> DecodedManifest:
        """Open a manifest, and remember that it was."""
        self.opened.add(manifest.manifest_path)
        entries = tuple(self.contents[manifest.manifest_path])
        return DecodedManifest(manifest, entries, tuple(key_of(entry.data_file) for entry in entries))

    def apply(self, added: Mapping[PartitionKey, str], removed: Iterable[PartitionKey] = ()) -> list[str] | None:
        """One commit: replace or add ``added``, remove ``removed``; paths of files that went, None for no change."""
        files = {key: data_file(key, path) for key, path in added.items()}
        gone = frozenset(removed)
        change = Change(
            frozenset(added),
            files,
            may_match=lambda _: bool(gone),
            matches=lambda decoded: [key in gone for key in decoded.keys],
        )
        self.opened.clear()
        result = rewrite(self.manifests, change, cluster, self.decode)
        if result is None:
            return None
        written = [
            self.write([one.data_file if isinstance(one, ManifestEntry) else one for _, one in new.live])
            for new in result.new
            if new.live
        ]
        self.rewritten = len(self.manifests) - len(result.untouched)
        self.manifests = [*written, *result.untouched]
        return sorted(entry.data_file.file_path for entry in result.removed_entries)

    @property
    def leaves(self) -> list[list[PartitionKey]]:
        """Keys of each manifest, in the order of its entries."""
        return [[key_of(entry.data_file) for entry in self.contents[m.manifest_path]] for m in self.manifests]

    @property
    def files(self) -> dict[PartitionKey, str]:
        """All live files by key."""
        entries = [entry for m in self.manifests for entry in self.contents[m.manifest_path]]
        found = {key_of(entry.data_file): entry.data_file.file_path for entry in entries}
        assert len(found) == len(entries)
        return found


KEYS = st.tuples(
    st.sampled_from("pq"), st.sampled_from("vw"), st.sampled_from("abcdefgh"), st.sampled_from([GENERAL, "1", "2"])
)
# A range of tables at once makes the tables large enough to be cut, which single keys would not.
RANGES = st.builds(
    lambda plugin, start, count, key: [(plugin, "v", f"{n:05}", key) for n in range(start, start + count)],
    st.sampled_from("pq"),
    st.integers(0, 800),
    st.integers(1, 500),
    st.sampled_from([GENERAL, "1"]),
)
SOME = st.one_of(st.lists(KEYS, max_size=6), RANGES)


@settings(max_examples=15)
@given(st.lists(st.tuples(SOME, SOME), max_size=5))
def test_a_run_of_changes_is_that_of_a_dictionary(changes: list[tuple[list[PartitionKey], list[PartitionKey]]]) -> None:
    """After each: the same files, within bounds, clusters apart, and the removed ones told exactly."""
    store, model = Store(), dict[PartitionKey, str]()
    for number, (written, removed) in enumerate(changes):
        added = {key: f"{number}-{'/'.join(key)}" for key in written}
        going = sorted(model[key] for key in {*added, *removed} & model.keys())
        told = store.apply(added, removed)
        assert (told or []) == going
        assert (told is None) == (not added and not going)
        model = {key: path for key, path in model.items() if key not in removed} | added
        assert store.files == model
        for leaf in store.leaves:
            assert 0 < len(leaf) <= LARGEST_BOUND
            assert len({cluster(key) for key in leaf}) == 1


@settings(max_examples=8)
@given(st.integers(1, 2_500), st.data())
def test_one_overwrite_rewrites_one_manifest(size: int, data: st.DataObject) -> None:
    """However many partitions there are; and it opens only manifests that its key could be in."""
    keys: list[PartitionKey] = [("p", "w", f"{n:05}", GENERAL) for n in range(size)]
    store = Store()
    store.apply(dict.fromkeys(keys, "old"))
    chosen = data.draw(st.sampled_from(keys))
    assert store.apply({chosen: "new"}) == ["old"]
    assert store.rewritten == 1
    assert len(store.opened) == 1
    assert store.files[chosen] == "new"


def test_bounds_grow_with_the_metastore_and_stay_within_limits() -> None:
    """About the square root, so that the list of manifests and a manifest cost the same."""
    assert [bound_for(n) for n in (0, 1, 100_000, 250_000, 640_000, 10**8)] == [
        SMALLEST_BOUND,
        SMALLEST_BOUND,
        SMALLEST_BOUND,
        500,
        800,
        LARGEST_BOUND,
    ]


def test_leaves_are_cut_evenly() -> None:
    """No tiny last manifest: the next single addition would have to open it."""
    store = Store()
    store.apply({("p", "w", f"{n:05}", "1"): "f" for n in range(SMALLEST_BOUND * 2 + 1)})
    assert [len(leaf) for leaf in sorted(store.leaves)] == [213, 214, 214]


def test_additions_one_by_one_keep_manifests_few() -> None:
    """Five hundred commits of one new partition each leave manifests that are well filled."""
    store = Store()
    for n in range(500):
        store.apply({("p", "w", f"{n * 7 % 500:05}", "1"): "f"})
    assert len(store.leaves) <= 2 * 500 // SMALLEST_BOUND
    assert len(store.files) == 500


def test_what_shrinks_is_joined() -> None:
    """Deleting most of everything leaves a few manifests after a few commits, not as many as there were."""
    keys: list[PartitionKey] = [("p", "w", f"{n:05}", "1") for n in range(SMALLEST_BOUND * 10)]
    store = Store()
    store.apply(dict.fromkeys(keys, "f"))
    assert len(store.leaves) == 10
    store.apply({}, [key for n, key in enumerate(keys) if n % 20])
    assert len(store.leaves) == 1
    assert len(store.files) == SMALLEST_BOUND // 2


@pytest.mark.parametrize("order", [1, -1])
def test_fragments_of_other_writers_are_joined_in_passing(order: int) -> None:
    """Forty manifests of one entry each, as appends leave them; sixteen go with each commit."""
    store = Store()
    store.manifests = [store.write([data_file(("p", "w", f"{n:02}", "1"), "f")]) for n in range(40)][::order]
    counts = []
    for n in range(3):
        store.apply({("q", "w", str(n), "1"): "f"})
        counts.append(len(store.leaves))
    assert counts[0] <= 40 - 14
    assert counts[-1] <= 12
    assert len(store.files) == 43


def test_clusters_that_another_writer_mixed_part() -> None:
    """Its manifest holds both; rewritten, each entry is with its own kind."""
    store = Store()
    keys: list[PartitionKey] = [("p", "w", f"{n}", kind) for n in range(9) for kind in (GENERAL, "1")]
    store.manifests = [store.write([data_file(key, "old") for key in reversed(keys)])]
    assert store.apply({keys[0]: "new"}) == ["old"]
    assert sorted({cluster(key) for key in leaf} for leaf in store.leaves) == [{0}, {1}]
    assert set(store.files) == set(keys)


def test_several_files_of_one_key_go_together() -> None:
    """Another writer may have put several; an overwrite leaves one."""
    store = Store()
    key: PartitionKey = ("p", "w", "t", "1")
    store.manifests = [store.write([data_file(key, "a"), data_file(key, "b")]), store.write([data_file(key, "c")])]
    assert store.apply({key: "new"}) == ["a", "b", "c"]
    assert store.files == {key: "new"}
