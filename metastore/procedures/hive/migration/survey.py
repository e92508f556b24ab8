"""First step of a migration: collects the state of a table from metastore and store, and checks whether it can migrate.

Nothing is changed. All obstacles are collected, so that a dry run reports them together. Facts that users should know,
but that do not prevent the migration, are warnings.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from metastore.errors import FormatError
from metastore.procedures.hive.metrics import FileToRead, MetricsChunk
from metastore.sources.hive.client import HiveClient
from metastore.sources.hive.listing import HiveStore, LocationContents, NestedDirectories, unusable
from metastore.sources.hive.partitions import PARTITION_TYPES, typed_value
from metastore.sources.hive.tables import MIGRATABLE, HiveFormat, HivePartition, HiveTable

_MOST_NAMED = 5
"""Maximum number of findings of one kind that are listed individually."""

State = tuple[object, ...]
"""The state that must not change between the survey and the switch; only compared."""


@dataclass(frozen=True, kw_only=True)
class Survey:
    """A table, its partitions with their folders (an unpartitioned table has one folder), and the findings.

    ``obstacles`` are reasons not to migrate it, ``warnings`` are facts for users; sentences without a full stop.
    """

    table: HiveTable
    partitions: tuple[HivePartition, ...]
    folders: tuple[LocationContents, ...]
    obstacles: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    files: tuple[FileToRead, ...] = field(default=(), repr=False)
    places: tuple[int, ...] = field(default=(), repr=False)
    """The index of each file's folder."""

    @property
    def state(self) -> State:
        """The part that concurrent inserts and changes of partitions change."""
        described = tuple((each.values, each.location, each.input_format) for each in self.partitions)
        return (described, tuple(folder.files for folder in self.folders))

    @property
    def bytes(self) -> int:
        """Total size of all data files."""
        return sum(file.size for file in self.files)

    @property
    def formats(self) -> dict[str, int]:
        """Number of files of each format."""
        return dict(Counter(str(file.format) for file in self.files))

    def chunks(
        self, properties: dict[str, str], size: int, files: Sequence[FileToRead] | None = None
    ) -> list[MetricsChunk]:
        """Returns the files, or some of them, as chunks for an engine's tasks."""
        columns, chosen = self.table.columns, self.files if files is None else files
        return [
            MetricsChunk(columns, chosen[start : start + size], properties) for start in range(0, len(chosen), size)
        ]


def survey(client: HiveClient, store: HiveStore, table: HiveTable, nested: NestedDirectories) -> Survey:
    """Returns the survey of ``table``. Raises StorageError if the metastore or store fails."""
    if obstacles := tuple(table.obstacles()):
        return Survey(table=table, partitions=(), folders=(), obstacles=obstacles)
    partitions = client.partitions(table.database, table.name) if table.is_partitioned else ()
    return survey_files(store, table, tuple(map(HivePartition.of, partitions)), nested)


def survey_files(
    store: HiveStore, table: HiveTable, partitions: tuple[HivePartition, ...], nested: NestedDirectories
) -> Survey:
    """Returns the survey of a table with these partitions. Raises StorageError."""
    obstacles: list[str] = []
    locations = [each.location for each in partitions] if table.is_partitioned else [table.location]
    obstacles += dict.fromkeys(filter(None, map(unusable, [table.location, *locations])))
    if not table.location or not all(locations):
        obstacles.append("it has no location")
    if obstacles:
        return Survey(table=table, partitions=partitions, folders=(), obstacles=tuple(obstacles))
    folders = tuple(store.contents(locations, nested))
    formats = [each.format for each in partitions] if table.is_partitioned else [table.format]
    files, places = _files(folders, formats)
    obstacles += _of_columns(table)
    obstacles += _of_folders(folders, nested)
    obstacles += _of_formats(table, partitions, folders, formats)
    obstacles += _of_partitions(table, partitions)
    obstacles += filter(None, (unusable(file.location) for file in files))
    if (
        table.is_partitioned
        and not partitions
        and (found := store.contents([table.location], NestedDirectories.READ)[0].files)
    ):
        obstacles.append(
            f"the Hive Metastore lists no partition of it, and there are {len(found)} files in its folder: bring the "
            "partitions in first (sync_partition_metadata, or MSCK REPAIR TABLE)"
        )
    warnings = () if obstacles else tuple(_warnings(table, folders, files))
    return Survey(
        table=table,
        partitions=partitions,
        folders=folders,
        obstacles=tuple(obstacles),
        warnings=warnings,
        files=files,
        places=places,
    )


def _files(
    folders: Sequence[LocationContents], formats: Sequence[HiveFormat | None]
) -> tuple[tuple[FileToRead, ...], tuple[int, ...]]:
    files: list[FileToRead] = []
    places: list[int] = []
    for place, (folder, format_) in enumerate(zip(folders, formats, strict=True)):
        if format_ is None:
            continue
        for file in folder.files:
            files.append(FileToRead(len(files), file.location, file.size, format_))
            places.append(place)
    return tuple(files), tuple(places)


def _of_columns(table: HiveTable) -> Iterator[str]:
    names = [name.lower() for name in table.column_names]
    yield from (f"column {name} is there twice" for name, count in Counter(names).items() if count > 1)
    try:
        partition_columns = table.partition_columns
        _ = table.columns
    except FormatError as error:
        yield str(error)
        return
    for name, type_ in partition_columns:
        if type_.name not in PARTITION_TYPES:
            yield f"partition column {name} has type {type_}, whose values have several spellings"


def _of_folders(folders: Sequence[LocationContents], nested: NestedDirectories) -> Iterator[str]:
    if nested is NestedDirectories.REFUSE:
        found = [folder.nested for folder in folders if folder.nested]
        if found:
            yield (
                f"there are nested directories ({_first_names(found)}); say with recursive_directory => "
                f"'true' that their "
                "files are data, or with 'false' that they are not"
            )
    counted = Counter(file.location for folder in folders for file in folder.files)
    if twice := [location for location, count in counted.items() if count > 1]:
        yield f"partitions overlap: files are in more than one of them ({_first_names(twice)})"


def _of_formats(
    table: HiveTable,
    partitions: Sequence[HivePartition],
    folders: Sequence[LocationContents],
    formats: Sequence[HiveFormat | None],
) -> Iterator[str]:
    inputs = [each.input_format for each in partitions] if table.is_partitioned else [table.input_format]
    known = ", ".join(map(str, MIGRATABLE))
    used = zip(folders, formats, inputs, strict=True)
    wrong = {str(format_ or name) for folder, format_, name in used if folder.files and format_ not in MIGRATABLE}
    if not table.is_partitioned and table.format not in MIGRATABLE:
        wrong.add(str(table.format or table.input_format))
    for name in sorted(wrong):
        yield f"its files are in {name or 'an unknown format'}; Iceberg knows {known}"


def _of_partitions(table: HiveTable, partitions: Sequence[HivePartition]) -> Iterator[str]:
    try:
        columns = table.partition_columns
    except FormatError:
        return
    wrong = []
    for partition in partitions:
        if len(partition.values) != len(columns):
            wrong.append(f"{list(partition.values)} has not one value for each of {len(columns)} columns")
            continue
        for (name, type_), text in zip(columns, partition.values, strict=True):
            if (problem := _misread(name, type_, text)) is not None:
                wrong.append(problem)
    if wrong:
        yield f"partition values cannot be read: {_first_names(wrong)}"


def _misread(name: str, type_: object, text: str) -> str | None:
    try:
        typed_value(text, type_)  # type: ignore[arg-type]
    except FormatError as error:
        return f"{name}: {error}"
    return None


def _warnings(table: HiveTable, folders: Sequence[LocationContents], files: Sequence[FileToRead]) -> Iterator[str]:
    if missing := [folder.location for folder in folders if not folder.exists]:
        yield f"{len(missing)} locations are not there, and count as empty: {_first_names(missing)}"
    if table.raw.sd.bucketCols:
        yield "its buckets are not kept: files stay as they are, and new ones are not bucketed"
    if any(file.format is HiveFormat.ORC for file in files):
        yield "PyIceberg reads ORC and writes Parquet: new files will be Parquet"
    if any(type_.name == "char" for _, type_ in (*table.columns, *table.partition_columns)):
        yield "char becomes string: trailing spaces are as the files have them"
    if table.kind.upper() == "MANAGED_TABLE":
        yield "it becomes external: dropping it no longer removes its files"


def _first_names(names: Sequence[str]) -> str:
    more = f", and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return "; ".join(names[:_MOST_NAMED]) + more
