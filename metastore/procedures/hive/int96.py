"""Rewrites files with INT96 times as current Parquet files while their table is migrated, by tasks of an engine.

PyIceberg alone reads INT96 times before 1677 and after 2262 wrongly. The new files are in the hidden folder of the
migration. Nothing reads them before the table is switched. An attempt that dies leaves only that folder, and reverting
the migration removes it. The old files stay.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile
from pyiceberg.table.name_mapping import parse_mapping_from_json

from metastore.engines.engine import Engine
from metastore.errors import EngineError
from metastore.lake.writes.job import RewriteJob
from metastore.lake.writes.pieces import Piece, Slice
from metastore.procedures.hive.migration.layout import Layout
from metastore.procedures.hive.migration.staging import Rewrite
from metastore.procedures.rewrite.task import FRAGMENTS, outcomes, rewrite_piece


def rewriter(name: str, properties: Mapping[str, str], engine: Callable[[int], Engine]) -> Rewrite:
    """Returns a function that rewrites data files of table ``name``, one to one; ``engine`` gets their number.

    The function raises FormatError, which names the file, StorageError, and EngineError if not all tasks answered.
    """

    def rewrite(layout: Layout, files: Sequence[DataFile], folder: str) -> Sequence[DataFile]:
        """New files in the order of ``files``; EngineError unless every file was rewritten."""
        job = RewriteJob(
            name=name,
            location=folder,
            properties={},
            io=PyArrowFileIO(dict(properties)),
            schemas=(layout.schema,),
            specs=(layout.spec,),
            output_spec_id=layout.spec.spec_id,
            name_mapping=parse_mapping_from_json(layout.name_mapping),
        )
        pieces = [_piece(number, file, job.output_spec_id) for number, file in enumerate(files)]
        found = engine(len(files)).run(pieces, partial(rewrite_piece, job), FRAGMENTS)
        done = sorted((outcome for batch in found for outcome in outcomes(batch)), key=lambda outcome: outcome.group)
        if [outcome.group for outcome in done] != list(range(len(files))):
            raise EngineError(f"not all files of {name} were rewritten; nothing was changed")
        return [file for outcome in done for file in outcome.files]

    return rewrite


def _piece(number: int, file: DataFile, spec_id: int) -> Piece:
    rows = file.record_count
    whole = Slice(file.file_path, file.file_format, file.file_size_in_bytes, rows, 0, rows, spec_id, file.partition, ())
    return Piece(number, 0, (whole,), file.partition, max(1, rows))
