"""``metastore.spark.read_table``: a table as a DataFrame over the files that pruning leaves.

Place in the flow: the session plans the scan; Spark reads the planned files only, and lists no directory. Spark's own
vectorized reader reads the files if it returns exactly the same rows. Otherwise tasks read them by Arrow: for row ids,
for row groups from which rows are excluded, for conditions on floats, and for files whose types differ from the
table's. Either way the DataFrame has the columns and the types that the metastore knows, and exactly the rows of the
unpruned table that satisfy the condition.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final
from urllib.parse import quote
from weakref import WeakKeyDictionary, proxy

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql
from sqlglot import exp

from metastore.duck.sql_filter import named_by
from metastore.errors import InvalidRequestError
from metastore.ground.quoting import quote_for_spark
from metastore.lake.formats.arrow_schema import require_held
from metastore.lake.formats.names import PARQUET
from metastore.lake.formats.parquet.parquet_footer import read_footer
from metastore.lake.formats.parquet.refused_footers import ENTRIES
from metastore.lake.stores.arrow import open_location
from metastore.lake.stores.locations import is_on_object_store
from metastore.model.tuple_schema import TupleSchema
from metastore.predicates.spark_sql import condition_of, texts_of
from metastore.predicates.uuid_texts import with_uuids
from metastore.scan.arrow_types import arrow_schema, has_floats, has_nanoseconds
from metastore.scan.directories import LEVEL
from metastore.scan.plan import ScanFile, Where
from metastore.scan.pruning.row_id import ROW_ID, Ids
from metastore.scan.rows import read_rows
from metastore.scan.scan import Scan
from metastore.scan.task_parts import split
from metastore.session import Session, TableLike
from metastore.sources.directories import directories_of, named_values
from metastore.spark.engine import SparkEngine
from metastore.spark.locations import spark_location
from metastore.spark.reading import read_directory, read_files
from metastore.spark.session_keys import session_conf, store_keys
from metastore.spark.spark_types import MOST_DIGITS, reads_natively, require_digits, spark_schema

ESCAPED_LITERALS: Final = "spark.sql.parser.escapedStringLiterals"
"""With this setting, which restores the behavior of Spark 1.6, a backslash in a literal is a plain character.

Some texts cannot be written then.
"""

_METADATA: Final = "_metadata"
"""Spark's column with what it knows of a row's file; a column of this name in the files hides it."""

_UNQUOTED: Final = "/:=!$&'()*+,;@-_.~"
"""The characters that Spark leaves unquoted in the URI of a file."""

_engines: WeakKeyDictionary[SparkSession, SparkEngine] = WeakKeyDictionary()
"""Engines by the session that they run in.

An engine refers to its session by a proxy; otherwise it would keep the session alive.
"""


def read_table(
    spark: SparkSession,
    ms: Session,
    table: TableLike,
    where: Where | None = None,
    columns: Sequence[str] | None = None,
    *,
    row_id: bool = False,
    exclude: Ids | None = None,
    among: Ids | None = None,
) -> DataFrame:
    """Returns the rows of ``table`` that satisfy ``where``, in ``columns`` (None: all).

    The scan is planned now and read when Spark runs. ``where`` is Spark SQL, in the time zone of ``spark``, or a
    PyIceberg expression. ``row_id`` adds ``$row_id``, ``exclude`` leaves out the rows with these ids, ``among`` reads
    only the row groups that these ids name. Raises as ``ms.tables.scan`` does, and InvalidRequestError for a text whose
    quotes mean something else under the settings of ``spark``.
    """
    if isinstance(where, str):
        _refuse_other_quotes(spark, where)
    zone = spark.conf.get("spark.sql.session.timeZone")
    scan = ms.tables.scan(table, where, columns, row_id=row_id, exclude=exclude, among=among, time_zone=zone)
    require_held(scan.schema, "Spark", MOST_DIGITS)
    require_digits(spark_schema(scan.schema)[0])
    location = _native_location(spark, scan)
    if location and _tells_files(spark) and _is_native(scan) and not isinstance(where, BooleanExpression):
        return _natively(spark, scan, location)
    return _by_arrow(_engines.setdefault(spark, SparkEngine(proxy(spark))), scan)


def _refuse_other_quotes(spark: SparkSession, where: str) -> None:
    """Raises InvalidRequestError if this session reads a literal of ``where`` in another way than pruning does."""
    literals = list(texts_of(where))
    other = {
        "spark.sql.legacy.consecutiveStringLiterals.enabled": [x for x in literals if x[0] * 2 in x[1:-1]],
        "spark.sql.ansi.doubleQuotedIdentifiers": [x for x in literals if x.startswith('"')],
        ESCAPED_LITERALS: [x for x in literals if x[0] * 2 in x[1:-1] or "\\" in x],
    }
    for setting, doubtful in other.items():
        if doubtful and spark.conf.get(setting, "false") == "true":
            otherwise = "" if setting == ESCAPED_LITERALS else ", or write a quote in a text as \\'"
            raise InvalidRequestError(
                f"with {setting} Spark does not read {doubtful[0]} as the text that it is elsewhere; turn the setting "
                f"off{otherwise}"
            )
    for literal, value in texts_of(where).items():
        refuse_variables(spark, literal, value)


def refuse_variables(spark: SparkSession, literal: str, value: str) -> None:
    """Raises InvalidRequestError if Spark substitutes a variable's value into ``literal``, which means ``said``."""
    if "${" in value and spark.sql(f"SELECT {literal}").collect()[0][0] != value:
        raise InvalidRequestError(
            f"Spark replaces the variable in {literal} before it reads the text; set spark.sql.variable.substitute to "
            "false, or write its value"
        )


def _by_arrow(engine: SparkEngine, scan: Scan) -> DataFrame:
    where = scan.plan.question
    cuts = _compares_nanoseconds(scan)
    chunk = scan.chunk
    if cuts:
        chunk = replace(chunk, where=None, columns=list(dict.fromkeys((*scan.columns, *_columns_asked(scan)))))
    elif not scan.filter_is_exact:
        chunk = replace(chunk, columns=scan.columns_to_read)
    struct, types = spark_schema(chunk.output)
    frame = engine.rows(split(replace(chunk, types=types), engine.parallelism), read_rows, struct)
    if where is None or (scan.filter_is_exact and not cuts):
        return frame
    return frame.where(_in_spark(scan)).select(*map(_name, scan.columns))


def _in_spark(scan: Scan) -> str:
    """Returns the condition for Spark, in which UUIDs are bytes: a text beside a UUID becomes its bytes."""
    where = scan.plan.question
    assert isinstance(where, str)
    changed = with_uuids(condition_of(where), scan.plan.columns, lambda each: exp.HexString(this=each.hex))
    return where if changed is None else changed.sql("spark")


def _compares_nanoseconds(scan: Scan) -> bool:
    """Whether a text compares columns with nanoseconds, which Spark truncates.

    It would compare the truncated values.
    """
    types = [scan.plan.readable.field(name).type for name in _columns_asked(scan)]
    return any(map(has_nanoseconds, types))


def _columns_asked(scan: Scan) -> frozenset[str]:
    """Returns the columns that a condition in SQL names; none for a condition that is an expression."""
    question = scan.plan.question
    named = named_by(question, scan.plan.columns) if isinstance(question, str) else frozenset()
    return frozenset(scan.plan.readable.names) if named is None else named


def _native_location(spark: SparkSession, scan: Scan) -> str | None:
    """Returns where Spark's own reader finds the table; None if it lacks a file system for it or the plugin's keys."""
    location = scan.plan.location
    if is_on_object_store(location) and not scan.plan.options.items() <= store_keys(session_conf(spark)).items():
        return None
    return spark_location(spark, location)


def _natively(spark: SparkSession, scan: Scan, location: str) -> DataFrame:
    """Returns the rows of ``scan`` by Spark's own reader.

    ``location`` is the table's location in the spelling that Spark opens.
    """
    plan = scan.plan
    levels = {name for name in plan.readable.names if LEVEL.fullmatch(name) and _is_level(name, scan)}
    # Spark reads a level from _metadata, which it builds for every row: only for levels that the query names.
    wanted = sorted(levels & {*scan.columns, *_columns_asked(scan)})
    stored = pa.schema([column for column in plan.schema if column.name not in levels])
    struct = spark_schema(stored)[0]
    directories = _alike(scan) if plan.is_everything else 0
    if directories:
        frame = read_directory(spark, location, struct, directories)
    else:
        frame = read_files(spark, location, struct, [location + path[len(plan.location) :] for path in scan.paths])
    if wanted and scan.files:
        below = _directories(location)
        frame = frame.withColumns({name: _level(below, int(name.removeprefix("dir"))) for name in wanted})
    elif wanted:
        frame = frame.withColumns({name: sql.lit(None).cast("string") for name in wanted})
    if plan.question is not None:
        frame = frame.where(_in_spark(scan))
    return frame.select(*map(_name, scan.columns))


def _alike(scan: Scan) -> int:
    """Returns the number of directories that hold the files, if Spark finds all files and their columns by itself.

    Returns 0 otherwise.
    """
    found = {directories_of(file.path, scan.plan.location) for file in scan.files}
    shapes = {tuple(name.partition("=")[:2] for name in directories) for directories in found}
    alike = len(shapes) == 1 and all(name and equals for shape in shapes for name, equals in shape)
    return len(found) if alike else 0


def _is_level(name: str, scan: Scan) -> bool:
    """Whether a column called ``dirN`` is a level of directories, not a column of the files or of ``dirN=v``."""
    if name in scan.plan.hidden.names:
        return True
    location = scan.plan.location
    return all(name in file.constants for file in scan.files) and not any(
        name in named_values(directories_of(file.path, location)) for file in scan.files
    )


def _directories(location: str) -> Column:
    """Returns the directories of a row's file below ``location``, and the file's name, as an array."""
    root = (
        quote(location, safe=_UNQUOTED) if not location.startswith("/") else "file:" + quote(location, safe=_UNQUOTED)
    )
    return sql.split(sql.substr(sql.col(f"{_METADATA}.file_path"), sql.lit(len(root) + 2)), sql.lit("/"))


def _level(below: Column, level: int) -> Column:
    # Spark's url_decode turns a plus into a space, as in HTML forms; in paths a plus is a plus.
    name = sql.url_decode(sql.replace(below[level], sql.lit("+"), sql.lit("%2B")))
    return sql.when(sql.size(below) > level + 1, name)


def _tells_files(spark: SparkSession) -> bool:
    """Whether Spark's own reader names the file of a row; the reader of data source version 2 does not."""
    of_version_1 = spark.conf.get("spark.sql.sources.useV1SourceList", "parquet") or ""
    return "parquet" in of_version_1.lower().split(",")


def _is_native(scan: Scan) -> bool:
    """Whether Spark's own reader returns exactly the rows of ``scan``."""
    plan = scan.plan
    if plan.format != PARQUET or ROW_ID in scan.columns or scan.exclude or plan.pseudo:
        return False
    if any(file.matched for file in scan.files):
        return False
    names = {name.lower() for name in plan.readable.names}
    if len(names) < len(plan.readable.names) or _METADATA in names:
        return False
    if not all(reads_natively(column.type) for column in plan.schema):
        return False
    texts = {file.schema for file in scan.files}
    own = [TupleSchema.from_json(text) for text in texts if text is not None]
    schemas = [arrow_schema(schema) for schema in own]
    return (
        None not in texts
        and not any(map(_has_types_beyond_spark, own))
        and not _is_written_beyond_spark(scan)
        and all(_agree(schema, plan.schema) for schema in schemas)
        and not any(_is_odd(file, plan.location) for file in scan.files)
        and _is_found(scan)
        and not _asks_of_floats(scan)
    )


def _has_types_beyond_spark(schema: TupleSchema) -> bool:
    """Whether a file has half floats, groups without fields, or variants.

    Spark refuses half floats and groups without fields, and returns variants as its own values.
    """
    return any(
        "float16" in column.properties.values() or _BEYOND_STRUCTS.search(column.type) is not None
        for column in schema.columns
    )


_BEYOND_STRUCTS: Final = re.compile(r"STRUCT<(?:>|(?=[^<>]*`metadata` VARBINARY)(?=[^<>]*`value` VARBINARY))")
"""A group without fields, or a variant: two binary columns, possibly with typed columns."""


def _is_written_beyond_spark(scan: Scan) -> bool:
    """Whether Spark's reader lacks a codec or type of the first file; one writer is assumed for a table's files."""
    if not scan.files:
        return False
    store, root = open_location(scan.plan.location, scan.plan.options)
    first = scan.files[0]
    try:
        with store.open_input_file(root + first.path[len(scan.plan.location) :]) as source:
            metadata = read_footer(source).metadata
    except (pa.ArrowException, OSError):
        return False  # The reader of the file reports the fault.
    leaves = [metadata.schema.column(index) for index in range(metadata.num_columns)]
    if any(leaf.logical_type.type in _TYPES_BEYOND_SPARK for leaf in leaves) or _SET.search(str(metadata.schema)):
        return True
    groups = [metadata.row_group(0)] if metadata.num_row_groups else []
    return any(group.column(index).compression in _BEYOND_SPARK for group in groups for index in range(len(leaves)))


_TYPES_BEYOND_SPARK: Final = ("FLOAT16", "UNDEFINED")
"""Half floats, and types that are newer than Spark's reader. It refuses a file that has one in any column."""

_SET: Final = re.compile(rf"(?:\(Map\) \{{\s*repeated group [^{{;]*|{ENTRIES} )\{{[^{{}};]*;\s*\}}")
"""A map with keys only, as Arrow prints a schema. Arrow reads it as a list; Spark expects values."""

_BEYOND_SPARK: Final = ("BROTLI", "LZO")


def _asks_of_floats(scan: Scan) -> bool:
    """Whether the condition names a column of the files with floats.

    Spark's reader skips row groups by their bounds, which leave out NaN. It would lose rows that match because they are
    NaN.
    """
    return any(
        has_floats(scan.plan.readable.field(name)) and not all(name in file.constants for file in scan.files)
        for name in _columns_asked(scan)
    )


def _agree(own: pa.Schema, table: pa.Schema) -> bool:
    return all(table.field(column.name).type == column.type for column in own if column.name in table.names)


def _is_found(scan: Scan) -> bool:
    """Whether Spark finds every file, and the columns of its directories.

    Spark silently skips files whose directories ``name=value`` have other names than the rest, or that have none. It
    reads no names above a plain directory, and refuses names that begin below several plain directories.
    """
    found = {directories_of(file.path, scan.plan.location) for file in scan.files}
    shapes, roots = set(), set()
    for directories in found:
        names = ["=" in name and name.partition("=")[0] for name in directories]
        inside = [index for index, name in enumerate(names) if name]
        if inside and not all(names[inside[0] : inside[-1] + 1]):
            return False
        shapes.add(tuple(name for name in names if name))
        roots.add(directories[: inside[0]] if inside else ())
    return len(shapes) <= 1 and len(roots) <= 1


def _is_odd(file: ScanFile, location: str) -> bool:
    """Whether Spark may read another value from the directories of ``file``, or refuse them."""
    directories = directories_of(file.path, location)
    names = [directory.partition("=")[0].lower() for directory in directories if "=" in directory]
    return (
        any("%" in directory or directory.endswith("=") for directory in directories)
        or "" in names
        or len(set(names)) < len(names)
    )


def _name(column: str) -> str:
    return quote_for_spark(column)
