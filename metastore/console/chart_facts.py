"""Facts of pages as what charts draw: bars and nodes. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from metastore.console.charts import Bar, Node
from metastore.console.iceberg import SnapshotRow
from metastore.overview.formats import moment, plural, size
from metastore.overview.segment_sizes import DirectorySize


def segments_as_bars(segments: Sequence[DirectorySize]) -> list[Bar]:
    """Returns a bar for each segment, as high as its bytes."""
    return [
        Bar(each.segment, each.bytes or 0, f"{size(each.bytes)} in {plural(each.files, 'file')}") for each in segments
    ]


def counts_as_bars(counts: Mapping[int, int]) -> list[Bar]:
    """Returns a bar for each power of two between the smallest and the largest file, as high as its number of files."""
    low, high = min(counts), max(counts)
    powers = [power for power in (0, *(1 << place for place in range(high.bit_length()))) if low <= power <= high]
    return [Bar(f"from {size(power)}", counts.get(power, 0), plural(counts.get(power, 0), "file")) for power in powers]


def snapshots_as_nodes(snapshots: Sequence[SnapshotRow]) -> list[Node]:
    """Returns a node for each snapshot, with its id, operation, time and refs."""
    return [
        Node(
            each.id,
            each.parent,
            f"{each.id} {each.operation}, {moment(each.time)}{' ← ' + ', '.join(each.refs) if each.refs else ''}",
            each.is_current,
        )
        for each in snapshots
    ]
