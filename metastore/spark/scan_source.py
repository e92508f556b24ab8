"""Reading a table by its name in Spark's data source ``metastore``: ``load("dfs.tmp.nation").where(…)``.

Place in the flow: the data source calls :func:`table_version` and :func:`table_schema` once, and passes both to a
:class:`TableScanReader`. Spark sends the reader to its planner and its tasks. The planner plans the scan at that
version with the filters that Spark pushes down; tasks read by Arrow. Filters only save work, because Spark checks every
row itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timezone
from decimal import Decimal
from math import isfinite
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import datasource as spark_source
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from metastore.config import Settings
from metastore.errors import InvalidRequestError
from metastore.ground.quoting import quote_for_spark, text_constant
from metastore.predicates.arrow_filter import both
from metastore.scan.pruning.file_columns import pseudo_columns
from metastore.scan.pruning.row_id import ROW_ID
from metastore.scan.rows import ReadChunk, read_rows
from metastore.scan.task_parts import split
from metastore.session import connect
from metastore.spark.spark_types import spark_schema

_LIKE_SPECIAL: Final = frozenset("%_\\")
_COMPARISONS: Final[Sequence[tuple[type[Filter], str]]] = (
    (spark_source.EqualTo, "="),
    (spark_source.LessThan, "<"),
    (spark_source.LessThanOrEqual, "<="),
    (spark_source.GreaterThan, ">"),
    (spark_source.GreaterThanOrEqual, ">="),
)


def table_version(settings: Settings) -> int:
    """Returns the version of the tables component that is current now; a query is pinned to it."""
    with connect(settings) as ms:
        return ms.tables.metadata.version


def table_schema(
    settings: Settings,
    table: str,
    *,
    version: int | None = None,
    row_id: bool = False,
    names: Iterable[str] = (),
) -> StructType:
    """Returns Spark's schema of ``table``, with ``$row_id`` last if wanted.

    Columns of a row's file (``$path`` and others) that are in ``names`` follow the table's own. Raises as
    ``ms.tables.scan`` does.
    """
    with connect(settings) as ms:
        scan = ms.tables.scan(table, row_id=row_id, at=version, list_files=False)
        own = [name for name in scan.schema.names if name != ROW_ID]
        if of_files := pseudo_columns(" ".join(names), own):
            scan = ms.tables.scan(table, None, [*own, *of_files], row_id=row_id, at=version, list_files=False)
        return spark_schema(scan.schema)[0]


@dataclass(frozen=True)
class FilesPartition(InputPartition):
    """The files that one task reads."""

    value: ReadChunk


class TableScanReader(DataSourceReader):
    """Reads the columns of ``schema`` of one table. It holds plain data only, so Spark can send it to other processes.

    ``schema`` is the result of :func:`table_schema`, or columns of it that the user declared (then only these are
    read). If it has ``$row_id``, row ids are read. ``version`` pins the metadata; the existing files are listed when
    the query runs, as always. ``where`` chooses rows before Spark sees them; times without a zone in it are UTC.
    ``tasks`` is the smallest number of partitions, if there are as many files.
    """

    def __init__(
        self,
        settings: Settings,
        table: str,
        schema: StructType,
        *,
        version: int | None = None,
        where: str | None = None,
        tasks: int = 8,
    ) -> None:
        self._settings = settings
        self._table = table
        self._names = schema.names
        self._schema = schema
        self._version = version
        self._tasks = tasks
        self._where = where
        self._pushed: list[str] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Use the filters that prune, and return all of them: Spark checks every row again."""
        self._pushed = [text for text in map(predicate, filters) if text]
        return list(filters)

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the scan; one partition for each task."""
        names = [name for name in self._names if name != ROW_ID]
        row_id = ROW_ID in self._names
        where = " AND ".join(f"({text})" for text in (*filter(None, [self._where]), *self._pushed)) or None
        with connect(self._settings) as ms:
            scan = ms.tables.scan(self._table, where, names, row_id=row_id, at=self._version)
            # Spark applies its filters again, to values that may have lost their nanoseconds.
            chunk = replace(scan, superset=True).chunk
            if self._where is not None:
                judged = ms.tables.scan(self._table, self._where, names, at=self._version, list_files=False)
                if not judged.filter_is_exact:
                    raise InvalidRequestError(
                        f"the option where is evaluated by Arrow, which cannot express {self._where!r} "
                        f"exactly; pass this "
                        "part to the DataFrame's own where, or use metastore.spark.read_table"
                    )
                chunk = replace(chunk, where=both(chunk.where, judged.row_filter))
        struct, types = spark_schema(chunk.output)
        if changed := [field.name for field in self._schema if struct[field.name].dataType != field.dataType]:
            raise InvalidRequestError(
                f"columns of {self._table} are of other types since the DataFrame was made: {', '.join(changed)}; "
                "load the table again"
            )
        ordered = replace(chunk, columns=self._names, types=pa.schema([types.field(name) for name in self._names]))
        # Spark requires a partition even if there is nothing to read.
        return [FilesPartition(part) for part in split(ordered, self._tasks) or [replace(ordered, files=[])]]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one partition."""
        assert isinstance(partition, FilesPartition)
        pa.set_cpu_count(1)  # the other cores belong to other tasks
        return read_rows(partition.value)


def predicate(filter_: Filter) -> str | None:
    """Returns a pushed filter as Spark SQL; None for one that cannot be expressed, which then prunes nothing."""
    if isinstance(filter_, spark_source.Not):
        inner = predicate(filter_.child)
        return None if inner is None else f"NOT ({inner})"
    column = ".".join(quote_for_spark(name) for name in getattr(filter_, "attribute", ()))
    if isinstance(filter_, spark_source.IsNull):
        return f"{column} IS NULL"
    if isinstance(filter_, spark_source.IsNotNull):
        return f"{column} IS NOT NULL"
    value = getattr(filter_, "value", None)
    if isinstance(filter_, spark_source.In):
        literals = [_literal(one) for one in filter_.value]
        return None if None in literals or not literals else f"{column} IN ({', '.join(map(str, literals))})"
    if isinstance(filter_, spark_source.StringStartsWith):
        plain = isinstance(value, str) and not _LIKE_SPECIAL & set(value) and _literal(value + "%")
        return f"{column} LIKE {plain}" if plain else None
    sign = next((sign for kind, sign in _COMPARISONS if isinstance(filter_, kind)), None)
    literal = _literal(value)
    return None if sign is None or literal is None else f"{column} {sign} {literal}"


def _literal(value: Any) -> str | None:
    """The value as a constant of SQL; None if the text would not mean it exactly, and Spark filters itself."""
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        text = repr(value)
        return (text if "e" in text else f"{text}e0") if isfinite(value) else None
    if isinstance(value, Decimal):
        return f"{value:f}" if "." in f"{value:f}" else f"{value:f}.0"
    if isinstance(value, str):
        return None if "\\" in value else text_constant(value)
    if isinstance(value, (bytes, bytearray)):
        return f"X'{bytes(value).hex()}'"
    if isinstance(value, datetime):
        if value.tzinfo is None:
            return f"TIMESTAMP_NTZ '{value.isoformat(' ')}'"
        return f"TIMESTAMP '{value.astimezone(timezone.utc).replace(tzinfo=None).isoformat(' ')}+00:00'"
    return f"DATE '{value.isoformat()}'" if isinstance(value, date) else None
