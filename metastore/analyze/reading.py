"""Determines which files must be read and reads them, on an engine or through a provider that knows their contents.

Place in the flow: :mod:`metastore.analyze.execution` knows which files are new and what is stored of the others. This
module finds out what is missing, chooses the engine by the number of files to read, and reports progress. Each file has
two kinds of facts. Its exact statistics come from the footer (Parquet) or from the data. Its columns' descriptions
always come from the data. Each kind is read only if it is not stored, or is out of date.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from metastore.analyze.changes import WantedMetadata
from metastore.analyze.tasks.chunks import UNIT_SCHEMA, Cutting, FileRead, Limits, run_named
from metastore.analyze.tasks.file_rows import DataChunk, file_row, read_chunk
from metastore.analyze.tasks.footers import FooterChunk, read_footers
from metastore.analyze.units.gathering import files_in, parts_of
from metastore.analyze.units.partial_aggregates import schema_of
from metastore.analyze.units.unit_rows import UnitRow, of_kind, to_batch, values
from metastore.engines.engine import Engine
from metastore.lake.formats.names import PARQUET
from metastore.lake.formats.source_file import SourceFile
from metastore.model.column_path import is_among, parse, quote
from metastore.model.drill_types import DrillType, parse_type
from metastore.model.sketches.description import Describing, Description, descriptions_in, descriptions_text
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import MetadataType
from metastore.sources.provided_tables import ProvidedTable
from metastore.sources.source_table import SourceTable

Progress = Callable[[int, int], None]
"""Called with the number of files read so far and the number to read, as far as known; the second may grow.

A file that is read twice counts twice.
"""

Descriptions = dict[str, "Description | None"]
"""A file's descriptions by column; None for a column without one."""


@dataclass
class FilesRead:
    """The result of reading: FILE rows, and descriptions by path."""

    details: list[pa.RecordBatch] = field(default_factory=list)
    descriptions: dict[str, Descriptions] = field(default_factory=dict)


class Reading:
    """Reads files of ``source`` for the metadata ``wanted``.

    ``engine`` is called before the first read, with the number of files expected by then.
    """

    def __init__(
        self,
        source: SourceTable,
        request: WantedMetadata,
        engine: Engine | Callable[[int], Engine],
        on_progress: Progress | None,
        limits: Limits,
    ) -> None:
        self._source = source
        self._request = request
        self._engine_or_choice = engine
        self._engine: Engine | None = None
        self._on_progress = on_progress
        self._limits = limits
        self._expected = 0
        self._done = 0

    @property
    def engine(self) -> Engine:
        """The engine, chosen on first use."""
        if self._engine is None:
            self._engine = (
                self._engine_or_choice(self._expected) if callable(self._engine_or_choice) else self._engine_or_choice
            )
        return self._engine

    @property
    def cutting(self) -> Cutting:
        """Cuts work into chunks for the engine."""
        return Cutting(self._source, self._request, self.engine.parallelism, self._limits)

    @property
    def engine_name(self) -> str | None:
        """The name of the engine that read files; None if there were no files to read."""
        return self._engine.name if self._engine is not None and self._done else None

    @property
    def of_footers(self) -> bool:
        """Whether footers alone contain everything that is wanted."""
        return self._request.format == PARQUET and self._request.describing is None and self._source.provided is None

    def expect(self, files: int) -> None:
        """Sets the least number of files that will be read in all."""
        self._expected = max(self._expected, files)

    def count_read(self, files: int) -> None:
        """Counts files that were read since the last call, and reports progress."""
        if files:
            self._done += files
            self.expect(self._done)
            if self._on_progress is not None:
                self._on_progress(self._done, self._expected)

    def footers(self, files: Sequence[SourceFile]) -> Iterator[pa.RecordBatch]:
        """The batches that :func:`read_footers` makes of ``files``; if an engine is ready, tasks begin at once."""
        if not files:
            return iter(())
        self.expect(self._done + len(files))
        return self._telling(run_named(self.engine, self.cutting.footers(files), read_footers, UNIT_SCHEMA))

    def _telling(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            self.count_read(files_in(parts_of(batch)[1]))

    def lacking(
        self,
        files: Sequence[SourceFile],
        kept_rows: pa.Table,
        described: Mapping[str, Mapping[str, object]],
        *,
        anew: bool,
    ) -> list[FileRead]:
        """The reads that ``files`` still need, beside the valid FILE rows in ``kept_rows``.

        ``anew`` reads statistics of all files.
        """
        schemas = dict(zip(values(kept_rows, "path"), values(kept_rows, "schema"), strict=True))
        wanted = self._request.describing_with_columns
        reads = []
        for file in files:
            schema = schemas.get(file.path)
            missing = wanted
            if schema is not None and wanted is not None:
                missing = _missing(wanted, schema_of(schema), described.get(file.path, {}))
            exact = schema is None or anew
            if exact or missing is not None:
                reads.append(FileRead(file, exact, missing))
        return reads

    def files(self, reads: Sequence[FileRead]) -> FilesRead:
        """Reads footers and data of files in one job, since every job costs time of its own."""
        found = FilesRead()
        if not reads:
            return found
        if self._source.provided is not None:
            return self._ask_provider(self._source.provided, [read.file for read in reads])
        of_parquet = self._request.format == PARQUET
        footers = self.cutting.footers([read.file for read in reads if read.exact]) if of_parquet else []
        data = self.cutting.data([read for read in reads if read.missing is not None or not of_parquet])
        measured = {read.file.path for read in reads if read.exact}
        chunks: list[FooterChunk | DataChunk] = [*footers, *data]
        self.expect(self._done + sum(len(chunk.files) for chunk in chunks))
        for batch in run_named(self.engine, chunks, read_chunk, UNIT_SCHEMA):
            details, fragments = parts_of(batch)
            if fragments.num_rows:
                found.details.append(details)
                self.count_read(files_in(fragments))
                continue
            for path, text in zip(batch["path"].to_pylist(), batch["additionalMetadata"].to_pylist(), strict=True):
                found.descriptions[str(path)] = descriptions_in(text)
            if not of_parquet:
                found.details.append(batch.filter(pc.is_in(batch["path"], pa.array(measured, pa.string()))))
            self.count_read(batch.num_rows)
        return found

    def _ask_provider(self, provided: ProvidedTable, files: Sequence[SourceFile]) -> FilesRead:
        """Asks the provider for its facts about ``files``."""
        self.expect(self._done + len(files))
        rows = []
        for row in kept_rows(self._source, provided, self._request, files):
            rows.append(row)
            self.count_read(1)
        return FilesRead([to_batch(UNIT_SCHEMA, self._source.table, rows)])


def kept_rows(
    source: SourceTable, provided: ProvidedTable, request: WantedMetadata, files: Sequence[SourceFile]
) -> Iterator[UnitRow]:
    """Yields the FILE rows of ``files``, which ``provided`` describes."""
    times = provided.modified_times() or {}
    for content in provided.contents(files, request.columns):
        chosen = {
            key: statistics.to_json()
            for key, statistics in content.statistics.items()
            if request.columns is None or is_among(parse(key), request.columns)
        }
        modified = times.get(content.file.path, 0)
        row = file_row(content.file, content.schema, chosen, content.rows, whole=content.whole, modified=modified)
        yield row._replace(location=source.location)


def stored_descriptions(units: pa.Table, describing: Describing | None) -> dict[str, Descriptions]:
    """The stored descriptions of the FILE rows among ``units``, by path; only for the columns ``describing``."""
    if describing is None:
        return {}
    files = of_kind(units, MetadataType.FILE)
    texts = zip(values(files, "path"), values(files, "additionalMetadata"), strict=True)
    return {
        path: {
            key: description
            for key, description in descriptions_in(text).items()
            if describing.columns is None or is_among(parse(key), describing.columns)
        }
        for path, text in texts
    }


def with_descriptions(units: pa.Table, descriptions: Mapping[str, Descriptions]) -> pa.Table:
    """``units`` with ``descriptions`` as the only content of additionalMetadata in the FILE rows."""
    if not any(descriptions.values()) and units["additionalMetadata"].null_count == units.num_rows:
        return units
    kinds, paths = values(units, "metadataType"), values(units, "path")
    texts = [
        descriptions_text(descriptions.get(path, {})) if kind == MetadataType.FILE.value else None
        for kind, path in zip(kinds, paths, strict=True)
    ]
    at = units.schema.get_field_index("additionalMetadata")
    return units.set_column(at, units.schema.field(at), pa.array(texts, pa.string()))


def _missing(describing: Describing, schema: TupleSchema, known: Mapping[str, object]) -> Describing | None:
    """The part of ``describing`` that is missing for a file with ``schema`` and the descriptions ``known``.

    Returns None if nothing is missing.
    """
    lacking = tuple(
        path
        for path, type_ in schema.leaves()
        if _has_values(parse_type(type_))
        and quote(path) not in known
        and (describing.columns is None or is_among(path, describing.columns))
    )
    return Describing(lacking, describing.percent) if lacking else None


def _has_values(leaf: DrillType) -> bool:
    """Whether the type has values to describe; lists, maps and structs without fields have none."""
    return not leaf.parts and leaf.name != "STRUCT"
