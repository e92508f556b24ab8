"""Tables of databases through Spark's JDBC source, as Arrow. A table is read whole, into the driver's memory.

Place in the flow: ANALYZE measures the rows that this module returns (:mod:`metastore.sources.database`). The JDBC
driver must be on Spark's class path, as for any other use of it; Derby's comes with PySpark. Timestamps without a zone
stay without one. Spark by default reads them as moments in the session's zone, which would change times that the zone's
clock skips.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import TimestampType

from metastore.errors import EngineError
from metastore.redaction import without_secrets
from metastore.spark.spark_types import arrow_rows


def read_jdbc(
    spark: SparkSession, url: str, table: str, properties: Mapping[str, str]
) -> tuple[pa.Schema, Iterator[pa.RecordBatch]]:
    """Returns all rows of ``table``; moments are in UTC, other timestamps have no zone.

    Raises EngineError if Spark or the database's driver refuses the read.
    """
    try:
        frame = spark.read.jdbc(url, table, properties={"preferTimestampNTZ": "true", **properties})
        found = arrow_rows(frame)
    except Exception as error:
        if not isinstance(error, PySparkException) and type(error).__module__ != "py4j.protocol":
            raise
        message = str(error)
        # Spark and drivers repeat the URL, which may hold a password. In that case their error is not shown as the
        # cause either.
        shown = without_secrets(message)
        reason = (shown.partition("\n: ")[2] or shown).partition("\n")[0]
        raise EngineError(f"Spark cannot read {table} from {without_secrets(url)}: {reason}") from (
            error if shown == message else None
        )
    zoned = {field.name for field in frame.schema.fields if isinstance(field.dataType, TimestampType)}
    fields = [
        pa.field(field.name, pa.timestamp("us", "UTC"), field.nullable) if field.name in zoned else field
        for field in found.schema
    ]
    schema = pa.schema(fields)
    return schema, iter(found.cast(schema).to_batches())
