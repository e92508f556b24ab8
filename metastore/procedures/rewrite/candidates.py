"""The data files that may be rewritten, each with the delete files that apply to it.

A filter picks files and never rows: a file is a candidate when its partition and bounds leave open that a row of it
matches, and then it is rewritten whole. What cannot be rewritten with all its rows kept right is refused here, before
anything is written.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.manifest import DataFileContent, FileFormat

from metastore.errors import ProcedureError
from metastore.iceberg.data_file import READABLE
from metastore.iceberg.delete_index import Deletes, only_path
from metastore.iceberg.live_files import LiveFiles
from metastore.procedures.rewrite.groups import Candidate


def candidates(files: LiveFiles, unpartitioned: frozenset[int]) -> list[Candidate]:
    """The data files with their deletes."""
    deletes = Deletes(files.deletes, unpartitioned)
    found = []
    for live in files.data:
        near = deletes.of(live)
        own = tuple(delete for delete in near if only_path(delete.file) is not None)
        found.append(Candidate(live, tuple(near), own))
    return found


def refuse_what_is_not_read(name: str, chosen: Sequence[Candidate]) -> None:
    """Raise ProcedureError when a file that is to be rewritten, or a delete of it, is in a format that is not read."""
    for candidate in chosen:
        for file in (candidate.live.file, *(delete.file for delete in candidate.deletes)):
            is_vector = file.file_format is FileFormat.PUFFIN and file.content == DataFileContent.POSITION_DELETES
            if file.file_format not in READABLE and not is_vector:
                raise ProcedureError(
                    f"{file.file_path} of {name} is {file.file_format.value}, which is not read. Nothing was changed; "
                    "choose other files by filter"
                )
