"""The doors of Spark to a table's rows, tested together with those of this process.

Place in the flow: tests add them to :data:`support.doctor.doors.DOORS`. Promise: rows
have the order of the file. They have the table's types where Spark represents a value differently: it has no time of
day, which becomes text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import time
from typing import Any, Final

import pyarrow as pa
from support.doctor.doors import ReadRows, name_in_sql

from metastore import errors
from metastore.errors import MetastoreError
from metastore.model.identity import TableInfo
from metastore.session import Session
from metastore.spark import read_table, register_source, select
from metastore.spark.session import quiet_about_pandas
from metastore.spark.source_options import FORMAT, SETTINGS, settings_option


def spark_doors(spark: Any) -> Mapping[str, ReadRows]:
    """Returns the doors of the SparkSession ``spark`` by name."""
    register_source(spark)

    def of_read_table(session: Session, table: TableInfo) -> pa.Table:
        return _rows(lambda: read_table(spark, session, table), session, table)

    def of_select(session: Session, table: TableInfo) -> pa.Table:
        query = f"SELECT * FROM {name_in_sql(table)}"
        return _rows(lambda: select(spark, session, query), session, table)

    def of_data_source(session: Session, table: TableInfo) -> pa.Table:
        reader = spark.read.format(FORMAT).option(SETTINGS, settings_option(session.settings))
        return _rows(lambda: reader.load(name_in_sql(table)), session, table)

    return {"spark_read_table": of_read_table, "spark_select": of_select, "spark_source": of_data_source}


def _rows(frame: Callable[[], Any], session: Session, table: TableInfo) -> pa.Table:
    """Returns the rows of a DataFrame, with times of day in the table's type. Raises a task's own error."""
    try:
        with quiet_about_pandas():
            made = frame()
            # Spark's conversion to Arrow loses the number of rows if there are no columns.
            rows: pa.Table = made.toArrow() if made.columns else _without_columns(made.count())
    except Exception as error:
        raise _error_of_task(error) or error from error
    for place, field in enumerate(session.tables.scan(table).schema):
        if pa.types.is_time(field.type) and pa.types.is_string(rows.schema.field(place).type):
            times = [None if text is None else time.fromisoformat(text[:15]) for text in rows.column(place).to_pylist()]
            rows = rows.set_column(place, field.name, pa.array(times, pa.time64("us")))
    return rows


def _without_columns(rows: int) -> pa.Table:
    counted: Any = pa.array([{}] * rows, pa.struct([]))
    return pa.Table.from_batches([pa.RecordBatch.from_struct_array(counted)])


_OF_TASK: Final = re.compile(r"^metastore\.errors\.(\w+): (.*)$", re.MULTILINE)


def _error_of_task(error: Exception) -> MetastoreError | None:
    """Returns this package's error inside of Spark's error for a failed task, if there is one."""
    if (found := _OF_TASK.search(str(error))) is None:
        return None
    kind = getattr(errors, found[1], MetastoreError)
    made: MetastoreError = kind(found[2])
    return made
