"""Decides what to read of a whole table: segments, then files, then row groups. Levels below a skipped one are free.

The input is the table's metadata units, level by level, and the files that exist now. One rule keeps answers right when
metadata is old: statistics are valid only for the files that were analyzed. New files and files that have changed since
are read whatever their segment's statistics say. Only the names of their directories can exclude them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue, BooleanExpression

from metastore.errors import InvalidRequestError
from metastore.model.bounds.unit_columns import CodedTexts
from metastore.model.bounds.units import UNIT_COLUMNS, UNIT_TYPES, of_kind
from metastore.model.column_path import ColumnPath, quote, sql_name
from metastore.model.column_path import parse as parse_path
from metastore.model.drill_types import DrillType, parse_type
from metastore.model.mapping.filters import balance
from metastore.model.tuple_schema import CASE_SENSITIVE, DOUBTED, KEPT, LOGICAL_TYPE, TupleSchema
from metastore.model.vocabulary import DEFAULT_SEGMENT, IDENTIFIER_SEPARATOR, MetadataType
from metastore.predicates.columns import Columns
from metastore.predicates.predicate import Question, parse
from metastore.scan.pruning.containers import FolderStatistics, UnitStatistics
from metastore.scan.pruning.decided_files import kept_columns
from metastore.scan.pruning.evaluate import Evaluation
from metastore.scan.pruning.file_columns import FileColumns
from metastore.scan.pruning.files import FileDecisions
from metastore.scan.pruning.known_files import KnownFiles
from metastore.scan.pruning.listed_files import ListedFiles
from metastore.scan.pruning.result import Count, PruneResult, SegmentDecisions
from metastore.scan.pruning.table_units import TableUnits, Units
from metastore.sources.directories import DirectoryColumns
from metastore.sources.spellings import spellings_of

__all__ = ["CHANGED", "UNIT_COLUMNS", "UNIT_TYPES", "UNKNOWN", "prune"]

CHANGED = "changed since ANALYZE"
UNKNOWN = "not analyzed"
_NOTHING_SKIPPED: Final = "nothing is skipped: each file and row group may hold rows that match, or is new or changed"


def prune(
    question: Question,
    units: pa.Table | Units,
    *,
    listing: ListedFiles | None = None,
    time_zone: str | None = None,
    directories_tell: bool = True,
    of_files: FileColumns | None = None,
    modified: Mapping[str, int] | None = None,
) -> PruneResult:
    """Decides what of a table must be read to answer ``question`` (Spark SQL text or a PyIceberg expression).

    * ``units`` are one table's metadata units in on-disk columns: :data:`UNIT_COLUMNS` of :data:`UNIT_TYPES`. They are
      in memory or read in portions, and finer levels may be absent. Without ``partitionKeys``, a file's column takes
      precedence over a directory's.
    * ``listing`` holds the files that exist now, by the FILE units' paths; None trusts the metadata.
    * ``time_zone`` is the session's.
    * ``directories_tell`` is False if directory names say nothing about rows (Iceberg, Delta).
    * ``of_files`` are the pseudo columns that the question may name; None determines them.
    * ``modified`` has the files' times for such a table, in epoch nanoseconds by path, if the table provides any. It is
      used only if ``of_files`` is None.

    Raises InvalidRequestError if there is no TABLE unit, and the errors of
    :func:`metastore.predicates.predicate.parse`.
    """
    question = balance(question) if isinstance(question, BooleanExpression) else question
    source = TableUnits(units) if isinstance(units, pa.Table) else units
    table = _Table.of(source.upper())
    pseudo = of_files
    if pseudo is None:
        taken, is_kept = table.schema.by_name, not directories_tell
        pseudo = FileColumns.named_in(str(question), taken, table.root, listing, is_kept=is_kept, modified=modified)
    known = KnownFiles() if listing is None else KnownFiles.compare(listing, source.all_files(), table.root)
    directories = table.directories(table.folders | known.folders if directories_tell else set())
    if listing is not None or not directories_tell:
        return _decide_files(question, source, table, known, directories, time_zone, pseudo)
    # Segments normally name the folders of all files, but another writer may have left some out. The directories'
    # columns may then differ in number or type, and exclusions by them would be in doubt.
    try:
        result = _decide_files(question, source, table, known, directories, time_zone, pseudo)
    except InvalidRequestError:
        known = KnownFiles()
        for portion in source.all_files():
            known.meet_portion(portion)
        if known.folders <= table.folders:
            raise
    else:
        if known.folders <= table.folders:
            return result
    directories = table.directories(table.folders | known.folders)
    return _decide_files(question, source, table, KnownFiles(), directories, time_zone, pseudo)


def _decide_files(
    question: Question,
    source: Units,
    table: _Table,
    known_files: KnownFiles,
    directories: DirectoryColumns,
    time_zone: str | None,
    pseudo: FileColumns,
) -> PruneResult:
    """The decision with the columns of ``directories``.

    ``known_files`` has recorded all files already, or records them here if there is no listing.
    """
    predicate = parse(
        question, Columns(table.schema, (*directories.columns, *pseudo.columns), pseudo.absent), time_zone
    )
    evaluation = Evaluation(predicate)

    names, spellings = table.segment_names, spellings_of(table.schema)
    asked = _columns_asked(predicate.columns, directories, pseudo, spellings)
    folders = CodedTexts.of_texts(table.segment_folders)
    of_segments = UnitStatistics(source.segments(asked), folders, directories, spellings)
    segments = evaluation.exclude(np.ones(len(names), np.bool_), pseudo.beside(of_segments, None))
    excluded = np.flatnonzero(segments.mask).tolist()
    folders_excluded = [table.segment_folders[i] for i in excluded]
    why_not = _nearest(dict(zip(folders_excluded, segments.tests(excluded), strict=True)))
    left_out = frozenset(names[i] for i in excluded if IDENTIFIER_SEPARATOR not in names[i])
    files = FileDecisions(known_files, directories, evaluation, why_not, spellings, pseudo)
    for portion in source.portions(left_out, asked):
        files.decide(portion)
    in_segments: Counter[str] = Counter()
    for folder, number in known_files.unchanged.items():
        if tests := why_not(folder):
            in_segments[tests] += number

    _decide_unproven(files)
    reasons = _reasons(evaluation, files)
    notes = [*predicate.notes, *reasons, *_wide_bounds(table.schema, predicate.columns, reasons)]
    notes += _doubted_footers(table.schema, predicate.columns)
    kept_whole = len(files.kept) == known_files.count and files.row_groups_kept == known_files.row_groups
    if kept_whole and files.kept and not notes and not isinstance(predicate.condition, AlwaysTrue):
        notes.append(_NOTHING_SKIPPED)
    return PruneResult(
        predicate=predicate.text,
        notes=notes,
        segments=SegmentDecisions(names, segments),
        files=files.kept,
        skipped_files=files.skipped,
        files_count=Count(known_files.count, len(files.kept)),
        row_groups_count=Count(known_files.row_groups, files.row_groups_kept),
        bytes_count=_bytes(known_files, files.kept.size),
        directory_columns=directories.columns,
        unknown=known_files.listed_paths(known_files.unknown),
        changed=known_files.listed_paths(known_files.changed),
        missing=known_files.missing,
        skipped_in_segments=in_segments,
        row_groups_skipped_by=dict(files.row_groups_skipped_by.most_common()),
    )


def _columns_asked(
    columns: Iterable[str],
    directories: DirectoryColumns,
    pseudo: FileColumns,
    spellings: Mapping[str, Sequence[ColumnPath]],
) -> list[str]:
    """The quoted paths under which units may have statistics about ``columns``."""
    pseudo_names = {quote((name,)) for name in pseudo.names}
    asked: dict[str, None] = {}
    for column in columns:
        if column in pseudo_names or column in directories:
            continue
        asked.update(dict.fromkeys((column, *map(quote, spellings.get(column, ())))))
    return list(asked)


def _reasons(evaluation: Evaluation, files: FileDecisions) -> list[str]:
    """Notes on tests that skip nothing because no statistics of their columns are known."""
    if not files.judged:
        return []
    return [
        f"{test.text} skips nothing: no file or row group has {test.needs} of {'.'.join(parse_path(test.column))}"
        for test in evaluation.blind_tests()
    ]


def _wide_bounds(schema: TupleSchema, columns: Iterable[str], reasons: Sequence[str]) -> list[str]:
    """Notes on the condition's columns whose bounds are wider than their values."""
    notes = []
    for path in map(parse_path, columns):
        column = schema.by_name.get(path[0])
        name = ".".join(path)
        if column is None or column.leaf_property(LOGICAL_TYPE, path) != "int96":
            continue
        if not any(reason.endswith(f" of {name}") for reason in reasons):
            notes.append(f"bounds of {name} are 26 hours wider than its values: engines read INT96 in different zones")
    return notes


def _doubted_footers(schema: TupleSchema, columns: Iterable[str]) -> Iterator[str]:
    """Notes on the condition's columns for which some footers' figures are not trusted."""
    for path in map(parse_path, columns):
        column = schema.by_name.get(path[0])
        doubt = None if column is None else column.leaf_property(DOUBTED, path)
        if doubt is not None:
            yield f"{sql_name(path)}: {doubt}; ANALYZE … BOUNDS ({sql_name(path)}) reads the data of such files"


@dataclass(frozen=True)
class _Table:
    """One table's units above its files, and the facts of its TABLE unit.

    ``of_directories`` are the columns whose values come from directories, even if files have such a column too.
    """

    root: str
    schema: TupleSchema
    of_directories: frozenset[str]
    segment_names: Sequence[str]
    segments: pa.Table

    @classmethod
    def of(cls, units: pa.Table) -> _Table:
        table, segments = (of_kind(units, kind) for kind in (MetadataType.TABLE, MetadataType.SEGMENT))
        if table.num_rows != 1:
            raise InvalidRequestError(f"pruning needs the one TABLE unit of an analyzed table, not {table.num_rows}")
        root, schema = (table[name][0].as_py() for name in ("location", "schema"))
        keys = table["partitionKeys"][0].as_py() if "partitionKeys" in table.column_names else None
        names: list[Any] = segments["metadataIdentifier"].to_pylist()
        return cls(root or "", TupleSchema.from_json(schema or "{}"), frozenset(dict(keys or ())), names, segments)

    @cached_property
    def segment_folders(self) -> Sequence[str]:
        """The folder of each segment, empty for files directly in the table's folder."""
        return ["" if name == DEFAULT_SEGMENT else name for name in self.segment_names]

    @property
    def folders(self) -> set[str]:
        """The folders that segments name, and the table's own folder."""
        return {"", *self.segment_folders}

    def directories(self, folders: Iterable[str]) -> DirectoryColumns:
        """The columns that ``folders`` give.

        Those known to come from directories, and those that no file column hides.
        """
        of_files = self.schema.by_name.keys() - self.of_directories
        is_kept = KEPT in self.schema.properties
        known = {
            name: parse_type(column.type) if is_kept and (column := self.schema.by_name.get(name)) else None
            for name in self.of_directories
        }
        case_sensitive = CASE_SENSITIVE in self.schema.properties
        return _directory_columns(frozenset(folders), frozenset(of_files), tuple(known.items()), case_sensitive)


@lru_cache(maxsize=2)
def _directory_columns(
    folders: frozenset[str],
    of_files: frozenset[str],
    known: tuple[tuple[str, DrillType | None], ...],
    case_sensitive: bool,
) -> DirectoryColumns:
    """Cached for later questions about the same table: ten thousand folders take as long as all other decisions."""
    directories = (tuple(folder.split(IDENTIFIER_SEPARATOR)) for folder in folders if folder)
    return DirectoryColumns(directories, of_files, dict(known), case_sensitive=case_sensitive)


def _nearest(excluded: Mapping[str, str]) -> Callable[[str], str | None]:
    """Returns a function from a folder to the tests that excluded its segment, or an enclosing one.

    The function returns None if none did.
    """

    @cache
    def nearest(folder: str) -> str | None:
        while folder not in excluded:
            folder, separator, _ = folder.rpartition(IDENTIFIER_SEPARATOR)
            if not separator:
                return None
        return excluded[folder]

    return nearest


def _decide_unproven(files: FileDecisions) -> None:
    """Decides changed and unknown files, of which only the folders are certain."""
    known = files.known
    places = np.concatenate([known.changed, known.unknown])
    if known.listing is None or not len(places):
        return
    paths = known.listing.paths.take(places)
    of_folders = FolderStatistics(CodedTexts.join([known.changed_folders, known.unknown_folders]), files.directories)
    excluded = files.evaluation.exclude(np.ones(len(places), np.bool_), files.pseudo.beside(of_folders, paths))
    files.skipped.add(paths, excluded)
    left = np.flatnonzero(~excluded.mask)
    reasons = CodedTexts((left >= len(known.changed)).astype(np.int32), (CHANGED, UNKNOWN))
    sizes = pa.array(known.listing.sizes[places[left]])
    files.kept.add(kept_columns(paths.take(left), reasons, sizes, None))


def _bytes(known_files: KnownFiles, kept: int | None) -> Count | None:
    total = known_files.total_size()
    return None if total is None or kept is None else Count(total, kept)
