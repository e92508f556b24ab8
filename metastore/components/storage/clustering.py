"""Chooses which manifests a change rewrites and where new ones are split, so that the cost of a commit stays flat.

Manifests are clustered like the leaves of a B-tree. Entries are sorted by partition key; a manifest has at most
``bound`` live entries, all of one cluster. Replacing an entry rewrites the manifest that holds it. A new entry goes to
the manifest whose keys surround its own. A manifest that exceeds the bound is split into even parts; one that becomes
small is merged with its neighbour. The decisions are pure: the only effect is to ask for decoded manifests.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Final

from pyiceberg.manifest import DataFile, ManifestEntry, ManifestFile

from metastore.components.storage.key_range import KeyRange, range_of
from metastore.lake.iceberg.manifests.manifests import DecodedManifest, live_count
from metastore.model.mapping.rows import PartitionKey

SMALLEST_BOUND: Final = 320
LARGEST_BOUND: Final = 1_000
_SMALL: Final = 4
"""A manifest with less than a quarter of the bound is small."""
_FRAGMENTS_AT_ONCE: Final = 16

Cluster = Callable[[PartitionKey], int]
Decode = Callable[[ManifestFile], DecodedManifest]
Matches = Callable[[DecodedManifest], Sequence[bool]]


def bound_for(live_entries: int) -> int:
    """Return the most live entries of a manifest: about the square root of all, so list and manifests grow alike."""
    return max(SMALLEST_BOUND, min(LARGEST_BOUND, math.isqrt(live_entries)))


@dataclass(frozen=True)
class Change:
    """The entries that one commit changes: remove ``replaced`` keys and entries a filter matches, add ``added``.

    ``may_match`` says whether the filter could match an entry of a manifest, ``matches`` which entries it matches.
    """

    replaced: frozenset[PartitionKey] = frozenset()
    added: Mapping[PartitionKey, DataFile] = field(default_factory=dict)
    may_match: Callable[[ManifestFile], bool] = lambda _: False
    matches: Matches = lambda decoded: [False] * len(decoded.entries)


Keyed = tuple[PartitionKey, ManifestEntry | DataFile]
"""An existing entry that stays, or an added file, with its key."""


@dataclass(frozen=True)
class NewManifest:
    """The content of a manifest to write: live entries in key order, and removed entries."""

    live: Sequence[Keyed]
    removed: Sequence[ManifestEntry]


@dataclass(frozen=True)
class Rewrite:
    """The result of a change: manifests that stay, and new manifests that replace the others."""

    untouched: Sequence[ManifestFile]
    new: Sequence[NewManifest]

    @property
    def removed_entries(self) -> list[ManifestEntry]:
        """All entries that the change removes."""
        return [entry for manifest in self.new for entry in manifest.removed]


@dataclass
class _Leaf:
    """A manifest during the change; it is untouched while ``decoded`` is None."""

    manifest: ManifestFile | None
    cluster: int
    range: KeyRange | None
    decoded: DecodedManifest | None = None
    kept: list[Keyed] = field(default_factory=list)
    removed: list[ManifestEntry] = field(default_factory=list)
    added: list[Keyed] = field(default_factory=list)

    def open(self, decode: Decode) -> None:
        if self.manifest is not None and self.decoded is None:
            self.decoded = decode(self.manifest)
            self.kept = list(zip(self.decoded.keys, self.decoded.entries, strict=True))

    @property
    def live(self) -> int:
        if self.manifest is not None and self.decoded is None:
            return live_count(self.manifest)
        return len(self.kept) + len(self.added)

    @property
    def is_touched(self) -> bool:
        return self.manifest is None or self.decoded is not None


def rewrite(manifests: Sequence[ManifestFile], change: Change, cluster: Cluster, decode: Decode) -> Rewrite | None:
    """Apply ``change`` to ``manifests``; returns None when it changes nothing."""
    leaves = sorted((_leaf(manifest, cluster) for manifest in manifests), key=_order)
    homes = _remove(leaves, change, decode)
    if not change.added and not any(leaf.removed for leaf in leaves):
        return None
    _place(leaves, change.added, homes, cluster, decode)
    bound = bound_for(sum(leaf.live for leaf in leaves))
    _join_small(leaves, bound, decode)
    untouched = [leaf.manifest for leaf in leaves if leaf.manifest is not None and not leaf.is_touched]
    new: list[NewManifest] = []
    for (touched, _), run in groupby(leaves, key=lambda leaf: (leaf.is_touched, leaf.cluster)):
        if touched:
            new.extend(_cut(list(run), bound, cluster))
    return Rewrite(untouched, new)


def _leaf(manifest: ManifestFile, cluster: Cluster) -> _Leaf:
    keys = range_of(manifest)
    return _Leaf(manifest, max(cluster(keys.lower), cluster(keys.upper)) if keys else 0, keys)


def _order(leaf: _Leaf) -> tuple[int, PartitionKey]:
    return leaf.cluster, leaf.range.lower if leaf.range else ()


def _remove(leaves: Sequence[_Leaf], change: Change, decode: Decode) -> dict[PartitionKey, _Leaf]:
    """Remove entries from their leaves; returns the leaf of each replaced key."""
    sorted_keys = sorted(change.replaced)
    homes: dict[PartitionKey, _Leaf] = {}
    for leaf in leaves:
        assert leaf.manifest is not None
        filtered = change.may_match(leaf.manifest)
        if not filtered and not _may_hold(leaf.range, sorted_keys):
            continue
        decoded = decode(leaf.manifest)
        found = change.replaced & decoded.positions.keys()
        homes.update(dict.fromkeys(found, leaf))
        gone = {position for key in found for position in decoded.positions[key]}
        if filtered:
            gone.update(position for position, hit in enumerate(change.matches(decoded)) if hit)
        if gone:
            leaf.decoded = decoded
            keyed = enumerate(zip(decoded.keys, decoded.entries, strict=True))
            leaf.kept = [pair for position, pair in keyed if position not in gone]
            leaf.removed = [decoded.entries[position] for position in sorted(gone)]
    return homes


def _may_hold(keys: KeyRange | None, sorted_keys: Sequence[PartitionKey]) -> bool:
    """Whether any key is within the range in every column; the order of tuples narrows the search first."""
    if keys is None:
        return bool(sorted_keys)
    first = bisect.bisect_left(sorted_keys, keys.lower)
    last = bisect.bisect_right(sorted_keys, keys.upper)
    return any(
        all(low <= value <= high for low, value, high in zip(keys.lower, key, keys.upper, strict=True))
        for key in sorted_keys[first:last]
    )


def _place(
    leaves: list[_Leaf],
    added: Mapping[PartitionKey, DataFile],
    homes: Mapping[PartitionKey, _Leaf],
    cluster: Cluster,
    decode: Decode,
) -> None:
    """Add each new file to the leaf that had its key, else to its cluster's last leaf that starts at or before it."""
    starts = [_order(leaf) for leaf in leaves]
    fresh: dict[int, _Leaf] = {}
    for key, data_file in added.items():
        number = cluster(key)
        if key in homes:
            homes[key].added.append((key, data_file))
            continue
        position = bisect.bisect_right(starts, (number, key)) - 1
        if position < 0 or leaves[position].cluster != number:
            position += 1
        if position < len(leaves) and leaves[position].cluster == number:
            leaf = leaves[position]
            leaf.open(decode)
        else:
            leaf = fresh.setdefault(number, _Leaf(None, number, None))
        leaf.added.append((key, data_file))
    leaves.extend(fresh.values())
    leaves.sort(key=_order)


def _join_small(leaves: Sequence[_Leaf], bound: int, decode: Decode) -> None:
    """Decode an untouched neighbour of each touched leaf that became small, and some earlier small manifests."""
    for position, leaf in enumerate(leaves):
        if leaf.is_touched and 0 < leaf.live < bound // _SMALL:
            for neighbour in leaves[max(0, position - 1) : position + 2]:
                if (
                    not neighbour.is_touched
                    and neighbour.cluster == leaf.cluster
                    and neighbour.live + leaf.live <= bound
                ):
                    neighbour.open(decode)
                    break
    fragments = [leaf for leaf in leaves if not leaf.is_touched and leaf.live < bound // _SMALL]
    if len(fragments) >= _FRAGMENTS_AT_ONCE:
        for leaf in fragments[:_FRAGMENTS_AT_ONCE]:
            leaf.open(decode)


def _cut(run: Sequence[_Leaf], bound: int, cluster: Cluster) -> list[NewManifest]:
    """Return neighbouring touched leaves as sorted sequences, one for each cluster, split evenly within the bound."""
    # Another tool may have mixed clusters in one manifest: separate them here.
    clusters: dict[int, list[Keyed]] = {}
    for leaf in run:
        for keyed in (*leaf.kept, *leaf.added):
            clusters.setdefault(cluster(keyed[0]), []).append(keyed)
    removed = [entry for leaf in run for entry in leaf.removed]
    manifests: list[NewManifest] = []
    for _, members in sorted(clusters.items()) or [(0, [])]:
        members.sort(key=lambda keyed: keyed[0])
        parts = max(1, math.ceil(len(members) / bound))
        cuts = [len(members) * part // parts for part in range(parts + 1)]
        manifests += [
            NewManifest(members[start:end], removed if start == 0 and not manifests else [])
            for start, end in pairwise(cuts)
        ]
    return manifests
