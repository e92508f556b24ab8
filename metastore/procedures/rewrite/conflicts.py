"""Decides which rewritten groups can still be committed, after other changes since the pinned snapshot.

A group can be committed if each of its files is live, as often as the group contains it, and no new delete file may
apply to one of them. Later equality deletes also apply to the new files, because these have the pinned sequence number.
So they do no harm if the new files are in the partition of the old ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import DataFile, DataFileContent

from metastore.lake.iceberg.rows.delete_index import Deletes
from metastore.lake.iceberg.rows.live_files import EntryKey, LiveFile
from metastore.lake.writes.pieces import Candidate


@dataclass(frozen=True)
class Rewritten:
    """One group with all tasks done: its input files, and the new files."""

    group: int
    inputs: tuple[Candidate, ...]
    added: tuple[DataFile, ...]


def conflicts(
    groups: Iterable[Rewritten],
    live: Mapping[EntryKey, Sequence[LiveFile]],
    new_deletes: Deletes,
    still_applies: Callable[[LiveFile, LiveFile], bool],
) -> dict[int, str]:
    """Returns the reason for each group (by number) that cannot be committed. ``live`` has live input files by entry.

    ``still_applies(delete, data)`` returns whether an equality delete from after the pinned snapshot applies to the new
    files as it does to ``data``.
    """
    found: dict[int, str] = {}
    left = Counter({entry: len(files) for entry, files in live.items()})
    for group in groups:
        needed = Counter(candidate.live.entry for candidate in group.inputs)
        if gone := needed - left:
            entry = next(iter(gone))
            found[group.group] = f"{entry.path} is no longer in the table"
            continue
        for candidate in group.inputs:
            data = candidate.live
            harmful = [
                delete
                for delete in new_deletes.of(data)
                if delete.file.content != DataFileContent.EQUALITY_DELETES or not still_applies(delete, data)
            ]
            if harmful:
                found[group.group] = f"rows of {data.path} were deleted meanwhile, by {harmful[0].path}"
                break
        else:
            left -= needed
    return found
