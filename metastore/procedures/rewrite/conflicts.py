"""Which rewritten groups can still be committed: what others did to their input files since the pinned snapshot.

A group stands when each of its files is live, as often as the group has it, and no delete file has come since that may
apply to one of them. Equality deletes that come later also apply to the new files, whose sequence number is the pinned
one; so those do no harm where the new files lie in the partition of the old ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.manifest import DataFile, DataFileContent

from metastore.iceberg.delete_index import Deletes
from metastore.iceberg.live_files import EntryKey, LiveFile
from metastore.procedures.rewrite.groups import Candidate


@dataclass(frozen=True)
class Rewritten:
    """One group whose tasks are all done: the files that it replaces, and the new ones."""

    group: int
    inputs: tuple[Candidate, ...]
    added: tuple[DataFile, ...]


def conflicts(
    groups: Iterable[Rewritten],
    live: Mapping[EntryKey, Sequence[LiveFile]],
    new_deletes: Deletes,
    still_applies: Callable[[LiveFile, LiveFile], bool],
) -> dict[int, str]:
    """Why groups cannot be committed, by number: ``live`` has the input files that are live now, by entry.

    ``still_applies(delete, data)`` says whether an equality delete of after the pinned snapshot applies to the new
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
