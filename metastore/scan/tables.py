"""``ms.tables``: the tables component, and scans of the tables that it describes.

A session knows the location of a table's data and its existing files; this module combines metadata, listing and
question. Results always equal those of a reader without metadata: new files and files changed since ANALYZE are read,
and removed files are not.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from typing import Final, Protocol

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression, In

from metastore.analyze.unstored_units import UnstoredUnits
from metastore.components.component import Backing
from metastore.components.requests import of_table
from metastore.components.storage.table import shared_look
from metastore.components.tables import TABLES, Tables
from metastore.errors import InvalidRequestError, NotFoundError
from metastore.lake.stores.locations import is_local
from metastore.model.identity import TableInfo, metadata_key
from metastore.model.mapping.filters import balance
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import DEFAULT_SEGMENT, GENERAL_INFO, MetadataType
from metastore.predicates.time_zones import zone_named
from metastore.scan.directories import LEVEL
from metastore.scan.located_rows import (
    LocatedRows,
    excluded_rows,
    in_order,
    keys_named,
    locate,
    partitions_named,
)
from metastore.scan.narrowing import WORTH_IT, directories_left, top_level_directories
from metastore.scan.partition_groups import GROUP_COLUMNS, components_of, partitions_of, segment_keys
from metastore.scan.plan import PLAN_COLUMNS, ScanPlan, Where, mutated_partitions, only_row_groups, plan
from metastore.scan.pruning.file_columns import MODIFIED, pseudo_columns
from metastore.scan.pruning.listed_files import ListedFiles
from metastore.scan.pruning.prune import UNIT_COLUMNS
from metastore.scan.pruning.row_id import Ids, decode
from metastore.scan.pruning.stored_units import StoredUnits, in_newest, units_of
from metastore.scan.pruning.table_units import Units
from metastore.scan.rows import RowNumbers, take_rows
from metastore.scan.scan import Scan
from metastore.sources.finders import readable_table
from metastore.sources.finding import FinderResources
from metastore.sources.provided_tables import ReadableTable
from metastore.sources.source_table import SourceTable

_UTC: Final = "UTC"
_NUMBERED: Final = (MetadataType.SEGMENT, MetadataType.ROW_GROUP)

TableLike = str | TableInfo | PurePath


class Places(Protocol):
    """The interface of a session that a scan needs."""

    def source(self, table: TableLike) -> SourceTable:
        """Return the source of the data of ``table``. Raise NotFoundError for an unconfigured plugin."""

    def table_info(self, table: TableLike) -> TableInfo:
        """Return the metastore's name of ``table``."""

    def no_metadata(self, table: TableInfo) -> NotFoundError:
        """Return the error for a table without metadata."""


class ScannedTables(Tables):
    """Metadata of tables, as in :class:`Tables`, and their rows.

    ``table`` is a name or the path of the data. An Iceberg or Delta table need not be analyzed: its manifests or its
    log then take the place of the metadata. Every method raises NotFoundError for another table without metadata, and
    InvalidRequestError for a question or a column that does not fit it.
    """

    def __init__(self, backing: Backing, places: Places, resources: FinderResources | None = None) -> None:
        """Without ``resources``, tables of catalogs have a name only through a storage plugin."""
        super().__init__(TABLES, backing)
        self._places = places
        self._resources = resources

    @shared_look()
    def scan(  # noqa: PLR0913 - the options of a scan
        self,
        table: TableLike,
        where: Where | None = None,
        columns: Sequence[str] | None = None,
        *,
        row_id: bool = False,
        exclude: Ids | None = None,
        among: Ids | None = None,
        time_zone: str | None = None,
        list_files: bool = True,
        at: int | None = None,
    ) -> Scan:
        """Plan a scan: the rows that satisfy ``where`` (Spark SQL or a PyIceberg expression), in ``columns``.

        ``row_id`` adds the column ``$row_id``. ``exclude`` leaves out the rows with these ids. ``among`` reads only the
        row groups that these ids name; the caller then selects the rows by id. ``time_zone`` applies to timestamps in
        ``where`` without a zone; default UTC. ``list_files=False`` trusts the metadata, which is correct only if no
        file has changed. ``at`` uses the metadata of that version.

        With ``row_id``, ``exclude`` or ``among``: StaleRowIdError if a partition that must be read or that an id names
        has changed; InvalidRequestError for ids that no row of the table has, and for a level other than ROW_GROUP.

        An Iceberg or Delta table has its current columns, and its rows have no ids. Raises InvalidRequestError for
        anything that the library for its format cannot read, and for a table of a database.
        """
        time_zone = time_zone or _UTC
        zone = zone_named(time_zone)
        source = self.readable(table)
        if row_id or exclude is not None or among is not None:
            _require_ids(source)
        whole = partial(
            self._plan,
            source,
            where,
            time_zone=time_zone,
            list_files=list_files,
            at=at,
            row_ids=row_id,
            names=columns or (),
        )
        if among is not None:
            keys = self._partitions_named(source, among)
            planned = self._only_named(whole(only=keys), among)
            return Scan.of(planned, columns, zone=zone, row_id=row_id)
        # Ids may name any partition, and any partition may have a requested directory level.
        names_tell = exclude is None and not any(LEVEL.fullmatch(name) for name in columns or ())
        left = self._left(source, where, time_zone, list_files=list_files, at=at) if where and names_tell else None
        planned = whole() if left is None else replace(whole(only=left), whole=whole)
        excluded = {} if exclude is None else self._exclude_rows(planned, exclude)
        return Scan.of(planned, columns, zone=zone, row_id=row_id, exclude=excluded)

    def rows_by_id(
        self, table: TableLike, ids: Ids, columns: Sequence[str] | None = None, *, row_id: bool = False
    ) -> pa.Table:
        """Return the rows with these ``ids``, one for each, in the same order; reads only their row groups.

        Raises StaleRowIdError, with the partition's name, for an id of a partition that changed since the id was
        created, and InvalidRequestError for an id that is not of this table.
        """
        source = self.readable(table)
        _require_ids(source)
        planned = self._plan(source, None, row_ids=True, only=self._partitions_named(source, ids))
        scan = Scan.of(planned, columns, zone=zone_named(_UTC), row_id=row_id)
        located = self._locate_rows(planned, ids)
        return in_order(
            take_rows(scan.chunk, [(rows.path, rows.index, rows.rows) for rows in located]), located, scan.schema
        )

    def aggregate(
        self,
        table: TableLike,
        expressions: Sequence[str],
        where: Where | None = None,
        *,
        time_zone: str | None = None,
        list_files: bool = True,
    ) -> pa.Table:
        """Return one row with the values of ``count(*)``, ``count(x)``, ``min(x)``, ``max(x)``, named by expression.

        Files that exact statistics answer are not read; the rest is. NaN counts as the largest number. Raises
        InvalidRequestError for any other expression.
        """
        of_files = pseudo_columns(" ".join(expressions), ())
        return self.scan(table, where, of_files or None, time_zone=time_zone, list_files=list_files).aggregate(
            expressions
        )

    def _plan(
        self,
        source: SourceTable,
        where: Where | None,
        *,
        time_zone: str | None = None,
        list_files: bool = True,
        at: int | None = None,
        row_ids: bool = False,
        only: Collection[str] | None = None,
        names: Sequence[str] = (),
    ) -> ScanPlan:
        """Return a plan over the whole table, or over the partitions with the metadata keys ``only``."""
        info = source.table
        kept_by = _kept_by(source)
        where = balance(where) if isinstance(where, BooleanExpression) else where

        # Only a listing has the modification times of files.
        listed_for_time = MODIFIED in pseudo_columns(" ".join((str(where or ""), *names)), ())

        def planned_at(version: int) -> ScanPlan:
            """The plan by the units of one version; by those of the table's keeper if the metastore has none."""
            keys = None if only is None else frozenset(only)
            stored = StoredUnits(self, info, version, PLAN_COLUMNS, keys)
            units: Units = units_of(stored)
            if not units.upper().num_rows:
                units = self._units_from_keeper(source)
            planned = plan(
                source.table,
                units,
                groups=partial(self._units, info, GROUP_COLUMNS, _NUMBERED, version),
                where=where,
                listing=_listing(source, only) if list_files or listed_for_time else None,
                time_zone=time_zone,
                row_ids=row_ids,
                kept_by=kept_by,
                columns_of=source if source.says_columns else None,
                names=names,
            )
            return replace(planned, options=source.options)

        planned = in_newest(self, planned_at) if at is None else planned_at(at)
        alone = source.lister is None and kept_by is None
        listed = list_files and only is None and alone and source.location == planned.location
        skipped = planned.pruned.files_count.skipped or any(file.row_groups is not None for file in planned.files)
        return replace(planned, is_everything=listed and not skipped)

    def readable(self, table: TableLike) -> SourceTable:
        """Return the source of ``table``: of a storage plugin, else of a configured catalog with the plugin's name."""
        try:
            return self._places.source(table)
        except NotFoundError:
            named = self._places.table_info(table)
            of_catalog = None if self._resources is None else readable_table(named, self._resources)
            if of_catalog is None:
                raise
            return of_catalog

    def describe_unstored(self, table: TableInfo) -> TableMetadataUnit | None:
        """Return a TABLE unit, without statistics, of an Iceberg or Delta table that nobody has analyzed.

        Return None if there is no such table.
        """
        try:
            source = self.readable(table)
            kept_by = source.provided if isinstance(source.provided, ReadableTable) else None
            schema = None if kept_by is None else kept_by.schema
        except NotFoundError:
            return None
        if kept_by is None or schema is None:
            return None
        return TableMetadataUnit(
            metadata_type=MetadataType.TABLE.value,
            metadata_key=GENERAL_INFO,
            location=source.location,
            schema=schema.to_json(),
            table_type=kept_by.format,
        )

    def _units_from_keeper(self, source: SourceTable) -> Units:
        """Return the units of a table that nobody has analyzed, from its keeper."""
        if not isinstance(source.provided, ReadableTable):
            raise self._places.no_metadata(source.table)
        return UnstoredUnits(source, source.provided)

    def _left(
        self, source: SourceTable, where: Where, time_zone: str | None, *, list_files: bool, at: int | None
    ) -> set[str] | None:
        """Return the metadata keys of partitions that ``where`` leaves by directory names; None for all partitions."""
        if source.provided is not None:
            return None
        if list_files and is_local(source.location):
            names = top_level_directories(source)
        else:
            names = [key for key in self._keys(source.table, at) if key and key != DEFAULT_SEGMENT]
            if list_files and len(names) >= WORTH_IT:  # tables of few partitions save this request
                names = top_level_directories(source)
        if names is None or len(names) < WORTH_IT:
            return None
        left = directories_left(
            where, self._units(source.table, UNIT_COLUMNS, (MetadataType.TABLE,), at), names, time_zone
        )
        return None if left is None else {DEFAULT_SEGMENT, *left}

    def _keys(self, table: TableInfo, at: int | None) -> set[str]:
        """Return the metadata keys of all partitions of ``table``.

        They are read from manifests, which have all partitions, whichever units a writer may have left out.
        """
        read = self.read().metadata_types(MetadataType.SEGMENT, MetadataType.FILE).filter(of_table(table))
        groups = (read if at is None else read.at(at)).groups()
        return {planned.key[-1] for group in groups for planned in group.files.planned}

    def _units(
        self,
        info: TableInfo,
        columns: Sequence[str],
        types: Sequence[MetadataType],
        at: int | None,
        only: Collection[str] | None = None,
    ) -> pa.Table:
        read = self.read().metadata_types(*types).filter(of_table(info)).columns(*columns)
        if only is not None:
            read.filter(In(term="metadataKey", literals={GENERAL_INFO, *only}))
        units = (read if at is None else read.at(at)).to_arrow()
        if not units.num_rows:
            raise self._places.no_metadata(info)
        return units

    def _partitions_named(self, source: SourceTable, ids: Ids) -> set[str]:
        """Return the metadata keys of the partitions that ``ids`` name."""
        table, pieces = source.table, decode(ids)

        def named_at(version: int) -> set[str]:
            keys = self._keys(table, version)
            if not keys:
                raise self._places.no_metadata(table)
            components: Mapping[str, bytes] = {}
            if named := keys_named(table, pieces, keys):
                units = self._units(table, GROUP_COLUMNS, (MetadataType.SEGMENT,), version, only=named)
                components = components_of(table, units)
            return set(partitions_named(table, pieces, components))

        return in_newest(self, named_at)

    def _only_named(self, planned: ScanPlan, ids: Ids) -> ScanPlan:
        """Return ``planned`` with only the row groups that ``ids`` name."""
        named: dict[str, set[int]] = {}
        for rows in self._locate_rows(planned, ids):
            named.setdefault(rows.path, set()).add(rows.index)
        return only_row_groups(planned, named, "$row_id names rows of other row groups")

    def _locate_rows(self, planned: ScanPlan, ids: Ids) -> list[LocatedRows]:
        table = planned.table
        pieces = decode(ids)
        keys = keys_named(table, pieces, segment_keys(planned.units.upper()))
        mutated = mutated_partitions(planned.pruned, planned.location)
        return locate(table, pieces, partitions_of(table, planned.groups(keys)) if keys else {}, mutated)

    def _exclude_rows(self, planned: ScanPlan, ids: Ids) -> dict[tuple[str, int], RowNumbers]:
        return excluded_rows(self._locate_rows(planned, ids))


def _kept_by(source: SourceTable) -> ReadableTable | None:
    """Return what defines the rows of ``source``; None for plain files. InvalidRequestError if nothing does."""
    if source.provided is None or isinstance(source.provided, ReadableTable):
        return source.provided
    raise InvalidRequestError(
        f"{source.table} is {source.provided.format}: its files alone do not define its rows, so read it "
        "with its own engine; ms.prune lists the files that it needs"
    )


def _require_ids(source: SourceTable) -> None:
    if source.provided is not None:
        raise InvalidRequestError(
            f"rows of {source.table} have no row ids: these number row groups in one state of a partition, and "
            f"{source.provided.format} records neither; identify rows by a key"
        )


def _listing(source: SourceTable, only: Collection[str] | None) -> ListedFiles:
    wanted = None if only is None else only.__contains__
    found = source.files(wanted)
    if only is not None:
        found = [file for file in found if metadata_key(file.directories) in only]
    return ListedFiles.of_files(found)
