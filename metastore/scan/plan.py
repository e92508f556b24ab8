"""The plan of a scan: which files and row groups it reads, with everything that reading needs. Pure.

Inputs are metadata units and a listing of the existing files. Pruning decides which files and row groups are left. The
plan adds the table's Arrow schema and the directories' values of each file; for row ids, also the partition component
and the ids of row groups. A plan is plain data, so it can be read here (:mod:`metastore.scan.scan`) or in tasks.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final

import pyarrow as pa
from pyiceberg.expressions import AlwaysTrue

from metastore.analyze.states import StoredTableState
from metastore.errors import InvalidRequestError
from metastore.lake.formats.conforming import rounds_inside
from metastore.lake.formats.names import FORMATS, PARQUET
from metastore.lake.formats.text.text_options import DEFAULTS, TextOptions
from metastore.model.bounds.units import of_kind
from metastore.model.column_path import ColumnPath, lower_path
from metastore.model.identity import TableInfo, metadata_key
from metastore.model.statistics_json import read_level
from metastore.model.tuple_schema import CASE_SENSITIVE, DIRECTORY, TupleSchema
from metastore.model.vocabulary import MetadataType
from metastore.predicates.columns import Columns
from metastore.predicates.predicate import Question
from metastore.scan.arrow_types import arrow_schema, arrow_type
from metastore.scan.directories import LEVEL, DirectoryValues
from metastore.scan.partition_groups import (
    GROUP_COLUMNS,
    PartitionGroups,
    partitions_of,
    refuse_mutated,
    require_row_groups,
)
from metastore.scan.pruning.file_columns import MODIFIED, FileColumns, pseudo_columns
from metastore.scan.pruning.listed_files import ListedFiles
from metastore.scan.pruning.prune import UNIT_COLUMNS, prune
from metastore.scan.pruning.result import PruneResult
from metastore.scan.pruning.table_units import Units, UnitsWithSchema
from metastore.sources.directories import directories_of
from metastore.sources.provided_tables import ReadableTable
from metastore.sources.source_table import SourceTable
from metastore.sources.spellings import InFiles, paths_of
from metastore.sources.table_columns import ColumnFinder, is_matched

PLAN_COLUMNS: Final = tuple(dict.fromkeys((*UNIT_COLUMNS, *GROUP_COLUMNS, "tableType")))
"""The columns (on-disk names) of units that a plan needs."""

Where = Question
"""The condition on rows: Spark SQL, a PyIceberg expression, or a parsed condition."""

Groups = Callable[[Collection[str]], pa.Table]
"""Returns the SEGMENT and ROW_GROUP units of the partitions with the given metadata keys, in :data:`GROUP_COLUMNS`."""

_FLOATING: Final = re.compile(r"\b(FLOAT|DOUBLE)\b")


@dataclass(frozen=True)
class Ids:
    """The data for one file's row ids; the ids of its row groups are consecutive."""

    component: bytes
    first_group: int


@dataclass(frozen=True, kw_only=True)
class ScanFile:
    """One file to read, whole or only its row groups ``row_groups`` (ascending), and why.

    ``constants`` are the values of its directories, in the types of the table's schema. ``schema`` is the file's own
    schema in Drill's JSON; None if it is unknown because the file is new or changed.
    """

    path: str
    row_groups: tuple[int, ...] | None
    reason: str
    size: int | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    schema: str | None = field(default=None, repr=False)
    ids: Ids | None = field(default=None, repr=False)
    matched: bool = False
    """Whether the file's columns differ from the table's or are unknown; then the plan's ``found_by`` finds them."""


@dataclass(frozen=True, kw_only=True)
class ScanPlan:
    """The files to read, and the pruning decision.

    ``location`` is the table's location, ``format`` the format of its files, ``options`` the options to open them.
    ``schema`` has every column of the table, including directory columns. ``hidden`` has the directory levels (``dir0``
    …) that are not columns of the table but can be requested. ``columns`` are the columns that a question may name.
    ``units`` is the metadata used for planning, ``groups`` the metadata of row groups.
    """

    table: TableInfo
    location: str
    format: str
    question: Where | None
    schema: pa.Schema
    hidden: pa.Schema
    files: Sequence[ScanFile]
    pruned: PruneResult
    columns: Columns = field(repr=False)
    units: Units = field(repr=False)
    groups: Groups = field(repr=False)
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    kept_by: ReadableTable | None = field(default=None, repr=False)
    """Defines the rows of the files if another system (Iceberg, Delta, …) keeps the table."""
    whole: Callable[[], ScanPlan] | None = field(default=None, repr=False)
    """Returns the plan over all partitions, if names of directories excluded some before this plan was made."""
    text: TextOptions = DEFAULTS
    """The options of delimited text files."""
    found_by: ColumnFinder | None = field(default=None, repr=False)
    """Finds the table's columns in files whose own columns may differ."""
    pseudo: Collection[str] = ()
    """The pseudo columns among ``hidden``."""
    is_everything: bool = False
    """Whether ``files`` are all data files below ``location``, with all their row groups."""

    @cached_property
    def readable(self) -> pa.Schema:
        """All columns that can be requested."""
        return pa.schema([*self.schema, *self.hidden])


def plan(  # noqa: PLR0913 - all facts of one table
    table: TableInfo,
    units: Units,
    *,
    groups: Groups,
    where: Where | None = None,
    listing: ListedFiles | None = None,
    time_zone: str | None = None,
    row_ids: bool = False,
    kept_by: ReadableTable | None = None,
    columns_of: SourceTable | None = None,
    names: Iterable[str] = (),
) -> ScanPlan:
    """Plan the scan of ``table`` from its ``units`` (:data:`PLAN_COLUMNS`, without files) and the existing files.

    ``names`` are the columns to read, including pseudo columns (:mod:`metastore.scan.pruning.file_columns`).

    ``columns_of`` is for a table whose keeper defines its columns: the plan uses the current ones. With ``kept_by``,
    directories give no columns.

    ``groups`` is called only with ``row_ids``, and only for the partitions that are read. A ``listing`` of None trusts
    the metadata. Raises the errors of :func:`metastore.scan.pruning.prune.prune`; InvalidRequestError for a format that
    scans do not read, or, with ``row_ids``, for a table not analyzed to its row groups; StaleRowIdError if a partition
    whose rows may match has changed since ANALYZE, so that its rows have no ids.
    """
    current = units if columns_of is None else UnitsWithSchema.of(units, columns_of.schema)
    if columns_of is not None and listing is None:
        _require_same_columns(table, units, current, by_identity=columns_of.provided is not None)
    facts = _TableFacts.of(current)
    is_kept = kept_by is not None
    if not is_kept and facts.format not in FORMATS:
        raise InvalidRequestError(f"{table} is of {facts.format} files; scans read {', '.join(FORMATS)}")
    if row_ids and facts.format != PARQUET:
        raise InvalidRequestError(f"row ids number row groups, and {table} is of {facts.format} files, which have none")
    text = " ".join(("" if where is None else str(where), *names))
    times = kept_by.modified_times() if kept_by is not None and MODIFIED in pseudo_columns(text, ()) else None
    of_files = FileColumns.named_in(text, facts.arrow.names, facts.location, listing, is_kept=is_kept, modified=times)
    if columns_of is not None:
        of_files = replace(of_files, absent={**of_files.absent, **_gone_columns(units, facts.schema)})
    pruned = prune(
        AlwaysTrue() if where is None else where,
        current,
        listing=listing,
        time_zone=time_zone,
        directories_tell=not is_kept,
        of_files=of_files,
    )
    levels = _hidden_levels(pruned, facts.arrow)
    finder = InFiles(facts.own_columns, any_case=not facts.case_sensitive) if columns_of is None else columns_of.columns
    partitions = _partitions_of_ids(table, facts, pruned, groups) if row_ids else {}
    constants_of = _constants(table, facts, levels, of_files, has_directories=not is_kept)
    paths = paths_of(facts.schema)
    files = [
        ScanFile(
            path=file.path,
            row_groups=file.row_groups,
            reason=file.reason,
            size=file.size,
            constants=constants_of(file.path),
            schema=file.schema,
            ids=_ids(partitions, file.path, facts.location),
            matched=finder is not None and _needs_finder(finder, paths, facts.schema_text, file.schema),
        )
        for file in pruned.files
    ]
    return ScanPlan(
        table=table,
        location=facts.location,
        format=facts.format,
        question=where,
        schema=facts.arrow,
        hidden=pa.schema([*levels, *of_files.schema]),
        files=files,
        pruned=pruned,
        columns=Columns(facts.schema, (*pruned.directory_columns, *of_files.columns), of_files.absent),
        units=current,
        groups=groups,
        kept_by=kept_by,
        text=facts.text,
        found_by=finder,
        pseudo=of_files.names,
    )


@dataclass(frozen=True)
class _TableFacts:
    """What the TABLE unit says of a table; ``partition_keys`` are directory columns, ``holders`` its statistics."""

    location: str
    format: str
    schema_text: str
    schema: TupleSchema
    partition_keys: Collection[str]
    holders: Sequence[str]
    text: TextOptions

    @classmethod
    def of(cls, units: Units) -> _TableFacts:
        """Decode the TABLE unit among ``units``."""
        columns = ["location", "schema", "tableType", "partitionKeys", "metadataStatistics", "additionalMetadata"]
        unit: dict[str, Any] = of_kind(units.upper(), MetadataType.TABLE).select(columns).to_pylist()[0]
        schema_text = unit["schema"] or "{}"
        return cls(
            location=unit["location"] or "",
            format=(unit["tableType"] or PARQUET).upper(),
            schema_text=schema_text,
            schema=TupleSchema.from_json(schema_text),
            partition_keys=tuple(dict(unit["partitionKeys"] or ())),
            holders=unit["metadataStatistics"] or (),
            text=StoredTableState.of(unit["additionalMetadata"]).text,
        )

    @cached_property
    def arrow(self) -> pa.Schema:
        """The columns in Arrow. Raises FormatError for a type that Arrow does not have."""
        return arrow_schema(self.schema)

    @property
    def case_sensitive(self) -> bool:
        """Whether names that differ in case are names of different columns."""
        return CASE_SENSITIVE in self.schema.properties

    @property
    def own_columns(self) -> tuple[str, ...]:
        """The columns that are in files, and not in the names of directories."""
        return tuple(column.name for column in self.schema.columns if DIRECTORY not in column.properties)


def _hidden_levels(pruned: PruneResult, schema: pa.Schema) -> pa.Schema:
    """Return the columns of directory levels (``dir0`` …) that are no columns of the table."""
    levels = [column.path[0] for column in pruned.directory_columns if LEVEL.fullmatch(column.path[0])]
    return pa.schema([pa.field(name, pa.string()) for name in levels if name not in schema.names])


def _partitions_of_ids(
    table: TableInfo, facts: _TableFacts, pruned: PruneResult, groups: Groups
) -> Mapping[str, PartitionGroups]:
    """Return the partitions with files to read, by key. Raises StaleRowIdError if one has changed since ANALYZE."""
    require_row_groups(table, read_level(facts.holders))
    keys = {_key(path, facts.location) for path in pruned.paths}
    refuse_mutated(table, sorted(keys), mutated_partitions(pruned, facts.location))
    return partitions_of(table, groups(keys)) if keys else {}


def _constants(
    table: TableInfo, facts: _TableFacts, levels: pa.Schema, of_files: FileColumns, *, has_directories: bool
) -> Callable[[str], Mapping[str, Any]]:
    """Return a function from a path to the values that all rows of the file share, of its directories and its own."""
    directories = DirectoryValues(
        table,
        facts.location,
        (*facts.partition_keys, *levels.names),
        pa.schema([*facts.arrow, *levels]),
        case_sensitive=facts.case_sensitive,
    )

    def constants_of(path: str) -> Mapping[str, Any]:
        by_folder = directories.of(path) if has_directories else {}
        return {**by_folder, **of_files.values(path)} if of_files.names else by_folder

    return constants_of


def only_row_groups(planned: ScanPlan, named: Mapping[str, Collection[int]], why: str) -> ScanPlan:
    """Return ``planned`` with only the row groups ``named`` of each file; ``why`` explains the exclusion of others."""
    pruned = planned.pruned
    files = []
    for file in planned.files:
        asked = sorted(named.get(file.path, ()))
        row_groups = tuple(group for group in asked if file.row_groups is None or group in file.row_groups)
        if row_groups:
            files.append(replace(file, row_groups=row_groups))
    skipped = Counter(pruned.skipped_in_segments)
    if without := len(planned.files) - len(files):
        skipped[why] += without
    read = {file.path for file in files}
    groups = sum(len(file.row_groups or ()) for file in files)
    return replace(
        planned,
        files=files,
        pruned=replace(
            pruned,
            files=pruned.files.only(read),
            files_count=replace(pruned.files_count, kept=len(files)),
            row_groups_count=replace(pruned.row_groups_count, kept=groups),
            skipped_in_segments=skipped,
        ),
    )


def _require_same_columns(table: TableInfo, before: Units, now: Units, *, by_identity: bool) -> None:
    """Raise InvalidRequestError if columns changed: without a listing, outdated statistics would go unnoticed.

    If columns are found ``by_identity`` in files, whatever their names, new names alone do no harm.
    """
    stored, current = (
        [(column.name, column.type) for column in TupleSchema.from_json(text or "{}").columns]
        for units in (before, now)
        for text in of_kind(units.upper(), MetadataType.TABLE)["schema"].to_pylist()
    )
    if by_identity:
        kept = {name for name, _ in stored} & {name for name, _ in current}
        stored, current = ([column for column in columns if column[0] in kept] for columns in (stored, current))
    if stored != current:
        raise InvalidRequestError(
            f"the columns of {table} were altered since ANALYZE: run ANALYZE, or scan with list_files=True"
        )


def _gone_columns(analyzed: Units, now: TupleSchema) -> Mapping[str, str]:
    """Return why each column that a table had when it was analyzed, and has no more, cannot be asked for."""
    [text] = of_kind(analyzed.upper(), MetadataType.TABLE)["schema"].to_pylist()
    known = {column.name.lower() for column in now.columns}
    names = {column.name.lower() for column in TupleSchema.from_json(text or "{}").columns} - known
    return dict.fromkeys(names, "the table had it when it was analyzed, and has it no more; run ANALYZE")


def _needs_finder(finder: ColumnFinder, paths: frozenset[ColumnPath], schema: str, of_file: str | None) -> bool:
    """Whether ``finder`` must find the columns at ``paths`` in a file; exact names and Arrow's casts do not suffice."""
    if not isinstance(finder, InFiles):
        return is_matched(of_file)
    if finder.any_case and (of_file is None or _spells_otherwise(paths, of_file)):
        return True
    return _has_rounded(schema, of_file)


@lru_cache(maxsize=256)
def _has_rounded(schema: str, of_file: str | None) -> bool:
    """Whether a file's numbers are rounded to those of the table, which its finder does and Arrow does not."""
    floats = [column for column in TupleSchema.from_json(schema).columns if _FLOATING.search(column.type)]
    if of_file is None or not floats:
        return bool(floats)
    own = {column.name.lower(): column for column in TupleSchema.from_json(of_file).columns}
    pairs = [(own[column.name.lower()], column) for column in floats if column.name.lower() in own]
    return any(
        mine.type != theirs.type and rounds_inside(arrow_type(mine), arrow_type(theirs)) for mine, theirs in pairs
    )


@lru_cache(maxsize=256)
def _spells_otherwise(paths: frozenset[ColumnPath], schema: str) -> bool:
    own = paths_of(TupleSchema.from_json(schema))
    if missing := paths - own:
        lower = {lower_path(path) for path in own}
        return any(lower_path(path) in lower for path in missing)
    return False


def mutated_partitions(pruned: PruneResult, location: str) -> dict[str, str]:
    """Return the metadata keys of partitions whose files differ from ANALYZE, each with one such file."""
    found: dict[str, str] = {}
    for paths, why in ((pruned.missing, "is gone"), (pruned.changed, "has changed"), (pruned.unknown, "is new")):
        found.update({_key(path, location): f"{path} {why}" for path in paths})
    return found


def _key(path: str, location: str) -> str:
    return metadata_key(directories_of(path, location))


def _ids(partitions: Mapping[str, PartitionGroups], path: str, location: str) -> Ids | None:
    groups = partitions.get(_key(path, location)) if partitions else None
    return None if groups is None else Ids(groups.component, groups.first_group(path))
