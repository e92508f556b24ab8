"""The data files that may be rewritten, each with the delete files that apply to it.

A filter chooses files, never rows: a file is a candidate if, by its partition and bounds, a row may match. The whole
file is then rewritten. Files that cannot be rewritten correctly are refused here, before anything is written.
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
    """Returns the data files with their deletes."""
    deletes = Deletes(files.deletes, unpartitioned)
    found = []
    for live in files.data:
        near = deletes.of(live)
        own = tuple(delete for delete in near if only_path(delete.file) is not None)
        found.append(Candidate(live, tuple(near), own))
    return found


def refuse_what_is_not_read(name: str, chosen: Sequence[Candidate]) -> None:
    """Raise ProcedureError if a file to rewrite, or one of its delete files, is in a format that cannot be read."""
    for candidate in chosen:
        for file in (candidate.live.file, *(delete.file for delete in candidate.deletes)):
            is_vector = file.file_format is FileFormat.PUFFIN and file.content == DataFileContent.POSITION_DELETES
            if file.file_format not in READABLE and not is_vector:
                raise ProcedureError(
                    f"{file.file_path} of {name} is {file.file_format.value}, which is not read. Nothing was changed; "
                    "choose other files by filter"
                )
