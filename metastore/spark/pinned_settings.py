"""The Spark settings under which the metastore computes and writes, whichever session it runs in.

Place in the flow: REFRESH of a materialized view and ANALYZE of a database run in a copy of the session with these
settings. So rows and types do not depend on the caller's settings. The caller's session never changes.

The copy has three kinds of settings, and no others:

- :data:`PINNED` have the value given here. Each would otherwise change the meaning of a query or the bytes in a file.
- :data:`KEPT` are the caller's. They affect speed, memory, locations and access, not rows.
- All other settings of Spark SQL return to Spark's defaults, as do all keys ``parquet.*`` of Hadoop. A setting that a
  later release of Spark adds cannot change what is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from metastore.spark.session import all_settings, copy_session


class Pin(NamedTuple):
    """The value of a setting, and why it must not be the caller's."""

    value: str
    reason: str


_NULLS = "an overflow or a bad cast is an error, not a null, as in DuckDB"
_REBASED = "days and times before 1582 or 1900 are written as they are, which all other readers expect"
_TEXTS = "a text in the query is the text that was checked"

PINNED: Final[dict[str, Pin]] = {
    "spark.sql.ansi.enabled": Pin("true", _NULLS),
    "spark.sql.storeAssignmentPolicy": Pin("ANSI", _NULLS),
    "spark.sql.ansi.doubleQuotedIdentifiers": Pin("false", _TEXTS),
    "spark.sql.ansi.enforceReservedKeywords": Pin("false", "names that were checked stay names"),
    "spark.sql.parser.quotedRegexColumnNames": Pin("false", "a quoted name is one column, not a pattern"),
    "spark.sql.variable.substitute": Pin("false", _TEXTS),
    "spark.sql.caseSensitive": Pin("false", "names match in any case, as in the check of the query"),
    "spark.sql.groupByAliases": Pin("true", "GROUP BY means what it means in DuckDB"),
    "spark.sql.groupByOrdinal": Pin("true", "GROUP BY 1 is the first column"),
    "spark.sql.orderByOrdinal": Pin("true", "ORDER BY 1 is the first column"),
    "spark.sql.session.timeZone": Pin("UTC", "days and texts of moments do not depend on where the refresh runs"),
    "spark.sql.timestampType": Pin("TIMESTAMP_LTZ", "TIMESTAMP in a query is a moment"),
    "spark.sql.datetime.java8API.enabled": Pin("true", "dates before 1582 pass through Java unchanged"),
    "spark.sql.decimalOperations.allowPrecisionLoss": Pin("true", "decides on the scale of products and quotients"),
    "spark.sql.mapKeyDedupPolicy": Pin("EXCEPTION", "a key that is there twice is an error"),
    "spark.sql.function.concatBinaryAsString": Pin("false", "decides on the type of concat"),
    "spark.sql.function.eltOutputAsString": Pin("false", "decides on the type of elt"),
    "spark.sql.jsonGenerator.ignoreNullFields": Pin("true", "decides on the text of to_json"),
    "spark.sql.icu.caseMappings.enabled": Pin("true", "decides on what upper and lower return"),
    "spark.sql.charAsVarchar": Pin("false", "decides on spaces at the end of a char"),
    "spark.sql.readSideCharPadding": Pin("true", "decides on spaces at the end of a char"),
    "spark.sql.parquet.outputTimestampType": Pin("TIMESTAMP_MICROS", "INT96, the default, has no trusted statistics"),
    "spark.sql.parquet.datetimeRebaseModeInWrite": Pin("CORRECTED", _REBASED),
    "spark.sql.parquet.int96RebaseModeInWrite": Pin("CORRECTED", _REBASED),
    "spark.sql.parquet.datetimeRebaseModeInRead": Pin("CORRECTED", "what was written before is read unchanged"),
    "spark.sql.parquet.int96RebaseModeInRead": Pin("CORRECTED", "what was written before is read unchanged"),
    "spark.sql.parquet.writeLegacyFormat": Pin("false", "decides on how decimals and lists are laid out"),
    "spark.sql.parquet.fieldId.write.enabled": Pin("true", "ids of columns are written if there are some"),
    "spark.sql.parquet.fieldId.read.enabled": Pin("false", "columns are found by name"),
    "spark.sql.parquet.compression.codec": Pin("zstd", "as DuckDB's files have it"),
    "spark.sql.parquet.binaryAsString": Pin("false", "bytes stay bytes"),
    "spark.sql.parquet.int96AsTimestamp": Pin("true", "INT96 is read as a time"),
    "spark.sql.parquet.inferTimestampNTZ.enabled": Pin("true", "a reading of a clock stays one"),
    "spark.sql.parquet.mergeSchema": Pin("false", "the files of a refresh have one schema"),
    "spark.sql.files.ignoreCorruptFiles": Pin("false", "a damaged file is an error, not fewer rows"),
    "spark.sql.files.ignoreMissingFiles": Pin("false", "a missing file is an error, not fewer rows"),
    "spark.sql.optimizer.excludedRules": Pin("", "plans are the tested ones"),
}
"""By the setting's key."""

KEPT: Final[dict[str, str]] = {
    "spark.sql.adaptive.": "how joins and shuffles are planned",
    "spark.sql.autoBroadcastJoinThreshold": "which joins are broadcast",
    "spark.sql.broadcast": "time limits of broadcasts",
    "spark.sql.catalog": "catalogs that functions of the session may ask",
    "spark.sql.cbo.": "how joins are planned",
    "spark.sql.codegen.": "how plans are compiled",
    "spark.sql.debug.": "how plans are shown",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "rows that travel to Python together",
    "spark.sql.execution.python.": "how Python's workers are fed",
    "spark.sql.execution.pyspark.udf.": "time limits of Python's workers",
    "spark.sql.extensions": "extensions that the session was started with",
    "spark.sql.files.max": "how many files are read by a task and how large new ones are",
    "spark.sql.files.min": "how many tasks read",
    "spark.sql.files.openCostInBytes": "how many files are read by a task",
    "spark.sql.inMemoryColumnarStorage.": "how caches are kept",
    "spark.sql.join": "how joins are planned",
    "spark.sql.leafNodeDefaultParallelism": "how many tasks read",
    "spark.sql.max": "limits of plans and partitions",
    "spark.sql.objectHashAggregate.": "memory of aggregates",
    "spark.sql.parquet.output.committer.class": "how a store commits files",
    "spark.sql.python.filterPushdown.enabled": "needed by the data source of this package",
    "spark.sql.redaction.": "what plans do not show",
    "spark.sql.shuffle.": "how many tasks a shuffle has",
    "spark.sql.sort": "memory of sorts",
    "spark.sql.sources.commitProtocolClass": "how a store commits files",
    "spark.sql.sources.outputCommitterClass": "how a store commits files",
    "spark.sql.sources.parallelPartitionDiscovery.": "how directories are listed",
    "spark.sql.streaming.": "streams, which no refresh has",
    "spark.sql.thriftserver.": "the server that the session runs in",
    "spark.sql.ui.": "what Spark's pages show",
    "spark.sql.warehouse.dir": "where the session's own tables are",
    "spark.sql.window.": "memory of windows",
}
"""By the beginning of a key: why the caller may choose the setting."""

_DECIDING: Final = ("spark.sql.", "parquet.")
"""Settings with another beginning belong to the cluster and to stores."""


def settings_to_drop(keys: Iterable[str]) -> list[str]:
    """Returns those settings among ``keys`` of a session that return to Spark's defaults in the copy."""
    return sorted(
        key
        for key in keys
        if key.startswith(_DECIDING) and key not in PINNED and not any(key.startswith(beginning) for beginning in KEPT)
    )


@contextmanager
def pin_settings(spark: SparkSession) -> Iterator[SparkSession]:
    """Yields a copy of ``spark`` with its views and functions and the settings of this module.

    The copy is removed afterwards.
    """
    with copy_session(spark, {key: pin.value for key, pin in PINNED.items()}) as copy:
        for key in settings_to_drop(all_settings(copy)):
            with suppress(AnalysisException):  # A static setting applies to the whole application.
                copy.conf.unset(key)
        yield copy
