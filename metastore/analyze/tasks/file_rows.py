"""The tasks of ANALYZE that read data: from a chunk of files to their FILE rows, with facts that footers lack.

Engines run :func:`read_chunk` over chunks of footers and of data in one job. For chunks of data, :func:`read_files`
makes whole FILE rows of files in a format without footers, with descriptions if they are wanted. :func:`describe_files`
makes descriptions of Parquet files, for columns whose statistics come from footers. Its rows hold only the file's path
and the descriptions.

Promises: a file's row does not depend on the other files of its chunk. A file that cannot be read ends the task with an
error naming it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any, Final

import pyarrow as pa

from metastore.analyze.tasks.footers import FooterChunk, read_footers
from metastore.analyze.units.unit_rows import UnitRow, to_batch
from metastore.errors import FormatError
from metastore.lake.formats.arrow_reader import open_parquet
from metastore.lake.formats.arrow_schema import ArrowLeaf, choose_leaves, tuple_schema
from metastore.lake.formats.bounds_from_data import AUTO, BoundsFrom
from metastore.lake.formats.file_format import FileData, FileFormat, FooterStatistics, Opening, reading_data
from metastore.lake.formats.names import PARQUET, format_record
from metastore.lake.formats.parquet.element_values import element_leaves, element_values
from metastore.lake.formats.parquet.leaf_measures import LeafMeasure, as_orc_means, leaf_array
from metastore.lake.formats.row_files import read_file
from metastore.lake.formats.source_file import SourceFile
from metastore.lake.formats.text.text_options import DEFAULTS, TextOptions
from metastore.lake.stores.arrow import open_location
from metastore.model.column_path import ColumnPath, is_among
from metastore.model.elements import of_elements
from metastore.model.identity import TableInfo, file_identifier, metadata_key
from metastore.model.sketches.description import ColumnDescriber, Describing, Description, descriptions_text
from metastore.model.sketches.hashing import ArrowValues, domain_of
from metastore.model.sketches.row_sample import RowDraw
from metastore.model.statistics import ColumnStatistics
from metastore.model.statistics_json import holder_json
from metastore.model.tuple_schema import TupleSchema, with_twins
from metastore.model.vocabulary import MetadataType, Statistic
from metastore.sources.matched_files import rename_columns
from metastore.sources.table_columns import KeptSchema, TableColumns, as_kept


@dataclass(frozen=True)
class DataChunk:
    """Files of one table whose data one task reads; plain data. ``schema`` is that of the rows to return.

    ``columns`` None means exact statistics of all columns; ``describing`` None means no descriptions.
    """

    table: TableInfo
    location: str
    schema: pa.Schema
    files: Sequence[SourceFile]
    format: str
    columns: Sequence[ColumnPath] | None = None
    describing: Describing | None = None
    declared: TupleSchema | None = None
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    text: TextOptions = DEFAULTS
    bounds: BoundsFrom = AUTO
    """For files with footers: whether to read the data of columns that the footer does not fully cover."""
    kept: TableColumns | None = None
    """The table's columns as its catalog defines them, if it does; all columns then have the catalog's names."""


def read_chunk(chunk: FooterChunk | DataChunk) -> Iterator[pa.RecordBatch]:
    """The batches for a chunk of either kind; only batches of footers contain fragments of segments."""
    if isinstance(chunk, FooterChunk):
        return read_footers(chunk)
    return describe_files(chunk) if chunk.format == PARQUET else read_files(chunk)


def read_files(chunk: DataChunk) -> Iterator[pa.RecordBatch]:
    """The FILE rows of the chunk's files. Raises FormatError, NotFoundError or StorageError naming a file."""
    opening = Opening(format_record(chunk.format), chunk.location, chunk.declared, chunk.options, text=chunk.text)
    for file in chunk.files:
        with opening.open(file) as found:
            data = found if chunk.kept is None else rename_columns(found, chunk.kept)
            if chunk.declared is not None:
                _refuse_other_case(chunk.declared, data)
            yield to_batch(chunk.schema, chunk.table, [_file_row(file, data, chunk, opening)])


def describe_files(chunk: DataChunk) -> Iterator[pa.RecordBatch]:
    """One row for each of the chunk's Parquet files: its path, and the descriptions in ``additionalMetadata``."""
    for file in chunk.files:
        with reading_data(file, format_record(chunk.format)):
            descriptions = _describe_file(file, chunk)
        row = UnitRow(
            metadataType=MetadataType.FILE,
            metadataKey=metadata_key(file.directories),
            metadataIdentifier=file_identifier(file.directories, file.name),
            schema=None,
            statistics_keys=(),
            statistics_texts=(),
            metadataStatistics=(),
            lastModifiedTime=file.mtime_ns // 1_000_000,
            path=file.path,
            additionalMetadata=descriptions_text(descriptions),
        )
        yield to_batch(chunk.schema, chunk.table, [row])


def file_row(
    file: SourceFile,
    schema: TupleSchema,
    statistics: Mapping[str, str],
    rows: int,
    additional: str | None = None,
    *,
    whole: bool = True,
    modified: int | None = None,
) -> UnitRow:
    """The FILE row of a file, from the JSON of its columns' statistics.

    ``whole`` means that no row is deleted elsewhere. ``modified`` is for files whose state is no time: when they were
    modified, in epoch nanoseconds, 0 if unknown.
    """
    return UnitRow(
        metadataType=MetadataType.FILE,
        metadataKey=metadata_key(file.directories),
        metadataIdentifier=file_identifier(file.directories, file.name),
        schema=schema.to_json(),
        statistics_keys=tuple(statistics),
        statistics_texts=tuple(statistics.values()),
        metadataStatistics=(
            holder_json(Statistic.ROW_COUNT, rows, exact=whole),
            holder_json(Statistic.LENGTH, file.size),
            holder_json(Statistic.MODIFICATION_TIME_NANOS, file.mtime_ns),
        ),
        lastModifiedTime=(file.mtime_ns if modified is None else modified) // 1_000_000,
        location=file.path[: -len(file.name) - 1],
        path=file.path,
        additionalMetadata=additional,
    )


def _file_row(file: SourceFile, data: FileData, chunk: DataChunk, opening: Opening) -> UnitRow:
    """The FILE row of ``file``. Data are read for what no footer says: bounds, descriptions, the number of rows."""
    schema, leaves = tuple_schema(data.schema)
    schema = with_twins(replace(schema, properties=data.properties))
    measured = choose_leaves(leaves, chunk.columns)
    described = [] if chunk.describing is None else choose_leaves(leaves, chunk.describing.columns)
    footer = data.footer() if measured or not described else None
    known = {} if footer is None else _of_footer(footer, measured, chunk.bounds)
    measures = [LeafMeasure(leaf) for leaf in measured if leaf.key not in known]
    describers = _Describers(file, described)
    read = (*(measure.leaf for measure in measures), *described)
    names = list(dict.fromkeys(leaf.path[0] for leaf in read)) or list(data.schema.names[:1])
    rows = 0 if read or footer is None else footer.rows
    for batch in data.batches(names) if read or footer is None else ():
        for measure in measures:
            values = None if measure.leaf.opaque else leaf_array(batch, measure.leaf.path)
            measure.add(values, batch.num_rows)
        describers.add(batch, rows)
        rows += batch.num_rows
    known |= {measure.leaf.key: _certain(measure, opening.format) for measure in measures}
    statistics = {leaf.key: known[leaf.key].to_json() for leaf in measured}
    for leaf, found in _elements(file, data, chunk, opening).items():
        statistics[leaf.key] = found.to_json()
    return file_row(file, schema, statistics, rows, descriptions_text(describers.descriptions()))


def _of_footer(
    footer: FooterStatistics, leaves: Sequence[ArrowLeaf], bounds: BoundsFrom
) -> dict[str, ColumnStatistics]:
    """The statistics taken from a footer.

    All certain ones, and less certain ones for columns whose data is not read.
    """
    found = {leaf.key: footer.columns[leaf.path] for leaf in leaves if leaf.path in footer.columns}
    if bounds.source == "footers":
        for leaf in leaves:
            if leaf.path in footer.others and not is_among(leaf.path, bounds.columns):
                found[leaf.key] = as_orc_means(footer.others[leaf.path], leaf)
    return found


def _elements(
    file: SourceFile, data: FileData, chunk: DataChunk, opening: Opening
) -> dict[ArrowLeaf, ColumnStatistics]:
    """Statistics of what lists and maps of a file hold: from its footer, and from data if ``chunk.bounds`` asks for it.

    A column that cannot be read has none.
    """
    leaves = choose_leaves(element_leaves(data.schema), chunk.columns)
    footer = data.footer() if leaves else None
    found = (
        {} if footer is None else {leaf: footer.elements[leaf.path] for leaf in leaves if leaf.path in footer.elements}
    )
    for leaf in leaves:
        known = found.get(leaf)
        is_asked = chunk.bounds.source == "data" or is_among(leaf.path, chunk.bounds.columns)
        if not is_asked or (known is not None and (known.all_null or known.min is not None)):
            continue
        measure = LeafMeasure(leaf)
        try:
            for batch in _whole_columns(file, data, chunk, opening, leaf.path[0]):
                measure.add(element_values(batch, leaf.path), batch.num_rows)
        except (FormatError, pa.ArrowException, ValueError, TypeError, OverflowError):
            continue
        found[leaf] = of_elements(measure.statistics())
    return found


def _whole_columns(
    file: SourceFile, data: FileData, chunk: DataChunk, opening: Opening, name: str
) -> Iterator[pa.RecordBatch]:
    """The rows of one column with its lists and maps, which some readers leave out."""
    if opening.format.rows is None:
        return data.batches([name])
    if chunk.kept is not None:
        raise FormatError(f"the table's names of {name} are not those of the file")
    return read_file(opening, file.path, pa.schema([data.schema.field(name)]))


def _refuse_other_case(declared: TupleSchema, data: FileData) -> None:
    """Raises FormatError for a declared column that the file spells in another case: it would be null in every row."""
    spelled = {name.lower(): name for name in data.undeclared}
    known = frozenset(data.schema.names)
    for column in declared.columns:
        if column.name not in known and (name := spelled.get(column.name.lower())) is not None:
            raise FormatError(
                f"column {column.name} is declared, and the file calls it {name}; declare it by that name"
            )


def _certain(measure: LeafMeasure, format_: FileFormat) -> ColumnStatistics:
    known = measure.statistics()
    return as_orc_means(known, measure.leaf) if format_.has_footers else known


class _Describers:
    """The describers of a file's columns, which share the file's random draw of rows."""

    def __init__(self, file: SourceFile, leaves: Iterable[ArrowLeaf], *, sampled: bool = False) -> None:
        self._draw = RowDraw(file_identifier(file.directories, file.name))
        self._of = {leaf: None if leaf.opaque else ColumnDescriber(self._draw, sampled=sampled) for leaf in leaves}

    def add(self, batch: pa.RecordBatch, first: int) -> None:
        """Takes in the file's rows from number ``first`` on."""
        if not self._of:
            return
        places, draws = self._draw.rows(first, batch.num_rows)
        for leaf, describer in self._of.items():
            if describer is None:
                continue
            values = leaf_array(batch, leaf.path)
            if domain_of(values.type) is None and not pa.types.is_null(values.type):
                self._of[leaf] = None
            else:
                describer.add(values, places, draws)

    def descriptions(self) -> dict[str, Description | None]:
        """The descriptions of the rows so far, by quoted column path."""
        return {
            leaf.key: None if describer is None else describer.description() for leaf, describer in self._of.items()
        }


_DICTIONARY_BYTES: Final = 3
"""Texts with fewer bytes per value than this repeat so often that decoding by Parquet's dictionary pays off."""


def _describe_file(file: SourceFile, chunk: DataChunk) -> dict[str, Description | None]:
    """Descriptions of one Parquet file by key of a leaf as the table keeps it; None where a leaf has none."""
    assert chunk.describing is not None
    store, root = open_location(chunk.location, chunk.options)
    with store.open_input_file(root + file.path[len(chunk.location) :]) as source:
        reader = open_parquet(source)
        metadata = reader.metadata
        schema, leaves = tuple_schema(metadata.schema.to_arrow_schema())
        kept = None if chunk.kept is None else as_kept(chunk.kept, schema)
        kept_as_of = {leaf: leaf if kept is None else _as_kept(leaf, kept) for leaf in leaves}
        wanted = set(
            choose_leaves([leaf for leaf in kept_as_of.values() if leaf is not None], chunk.describing.columns)
        )
        described = [leaf for leaf in leaves if kept_as_of[leaf] in wanted]
        indices = _leaf_indices(metadata.schema.to_arrow_schema(), described)
        if repeated := _repeated_texts(metadata, described, indices):
            source.seek(0)
            reader = open_parquet(source, dictionaries=repeated)
        groups = _sampled_groups(file, metadata.num_row_groups, chunk.describing.percent)
        describers = _Describers(file, described, sampled=len(groups) < metadata.num_row_groups)
        first = 0
        for group in range(metadata.num_row_groups):
            if group in groups and described:
                table = reader.read_row_group(group, column_indices=list(indices), use_threads=False)
                describers.add(_one_batch(table), first)
            first += metadata.row_group(group).num_rows
        found = describers.descriptions()
        return {kept_as.key: found[leaf.key] for leaf, kept_as in kept_as_of.items() if kept_as in wanted}


def _as_kept(leaf: ArrowLeaf, kept: KeptSchema) -> ArrowLeaf | None:
    path = kept.path(leaf.path)
    return None if path is None else replace(leaf, path=path)


def _one_batch(table: pa.Table) -> pa.RecordBatch:
    # combine_chunks copies even a single chunk.
    columns: list[ArrowValues] = [c.chunk(0) if c.num_chunks == 1 else c.combine_chunks() for c in table.columns]
    fields = [field.with_type(column.type) for field, column in zip(table.schema, columns, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _leaf_indices(schema: pa.Schema, leaves: Iterable[ArrowLeaf]) -> list[int]:
    """The numbers of ``leaves`` among the file's Parquet columns."""
    paths: list[ColumnPath | None] = []

    def walk(type_: Any, path: ColumnPath, *, repeated: bool) -> None:
        if pa.types.is_struct(type_):
            for index in range(type_.num_fields):
                inner = type_.field(index)
                walk(inner.type, (*path, inner.name), repeated=repeated)
        elif pa.types.is_map(type_):
            walk(type_.key_type, path, repeated=True)
            walk(type_.item_type, path, repeated=True)
        elif pa.types.is_nested(type_):
            walk(type_.field(0).type, path, repeated=True)
        else:
            paths.append(None if repeated else path)

    for column in schema:
        storage = column.type.storage_type if isinstance(column.type, pa.BaseExtensionType) else column.type
        walk(storage, (column.name,), repeated=False)
    positions = {path: index for index, path in enumerate(paths) if path is not None}
    return [positions[leaf.path] for leaf in leaves]


def _repeated_texts(metadata: Any, leaves: Sequence[ArrowLeaf], indices: Sequence[int]) -> list[int]:
    """The columns among ``indices`` with texts of so few different values that decoding each value once is enough."""
    if not metadata.num_row_groups:
        return []
    group = metadata.row_group(0)
    repeated = []
    for leaf, index in zip(leaves, indices, strict=True):
        column = group.column(index)
        is_text = leaf.type in ("VARCHAR", "VARBINARY") and column.physical_type == "BYTE_ARRAY" and len(leaf.path) == 1
        if is_text and column.total_uncompressed_size < _DICTIONARY_BYTES * column.num_values:
            repeated.append(index)
    return repeated


def _sampled_groups(file: SourceFile, groups: int, percent: float | None) -> frozenset[int]:
    """The row groups of a file to read for ``percent`` of its rows: at least one, chosen by the file's name."""
    if percent is None or groups == 0:
        return frozenset(range(groups))
    wanted = max(1, round(groups * percent / 100))

    def order(group: int) -> bytes:
        name = f"{file_identifier(file.directories, file.name)}/{group}"
        return blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8).digest()

    return frozenset(sorted(range(groups), key=order)[:wanted])
