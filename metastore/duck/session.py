"""A DuckDB connection for one task: in a time zone, and sandboxed if it runs text of other people.

Place in the flow: all code that filters rows, runs a SELECT or a view in DuckDB takes its settings from here. A
connection that the user gets (``scan.to_duckdb()``) is not sandboxed, because it belongs to the user.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import tzinfo
from typing import Any, Final

import pyarrow as pa

from metastore.duck.logical_types import all_columns, with_json
from metastore.errors import InvalidRequestError
from metastore.ground.optional import library
from metastore.lake.formats.arrow_schema import require_narrow_decimals

SANDBOX: Final = (
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
"""With these settings, a query can read only the data that it was given, and cannot change the settings back."""

_OFFSET: Final = re.compile(r"UTC([+-]\d\d:\d\d(?::\d\d)?)")

ALL_ROWS: Final = 2**62
"""A limit that keeps all rows, and keeps conditions from being pushed below it (:func:`judges_arrow`)."""


def connection(zone: tzinfo) -> Any:
    """Returns a new DuckDB connection whose session is in ``zone``.

    Raises InvalidRequestError if DuckDB is not installed, and for a zone that it does not know.
    """
    duckdb = library("duckdb", "sql")
    made = duckdb.connect()
    for setting in settings_of_release():
        made.execute(setting)
    try:
        made.execute(f"SET TimeZone = '{_name_of(zone)}'")
    except duckdb.Error as error:
        raise InvalidRequestError(f"DuckDB knows no time zone {zone}: {error}") from error
    return made


def _name_of(zone: tzinfo) -> str:
    """Returns DuckDB's name of ``zone``.

    Release 2 knows all offsets from GMT; release 1 only whole hours, sign reversed.
    """
    offset = _OFFSET.fullmatch(str(zone))
    if offset is None:
        return str(zone)
    hours, _, rest = offset[1].partition(":")
    return f"GMT{offset[1]}" if judges_arrow() or rest != "00" else f"Etc/GMT{-int(hours):+d}"


def relation(engine: Any, rows: Any) -> Any:
    """Returns an Arrow table or dataset as a relation of the DuckDB connection ``engine``.

    DuckDB itself filters its rows, not Arrow. Raises InvalidRequestError for a column that DuckDB cannot hold.
    """
    require_narrow_decimals(rows.schema, "DuckDB")
    schema = with_json(rows.schema)
    labelled = rows
    if not all(one.equals(other, check_metadata=True) for one, other in zip(schema, rows.schema, strict=True)):
        # Only where there is JSON: another dataset would keep the footers of the files that it has read.
        is_table = isinstance(rows, pa.Table)
        labelled = pa.table(rows.columns, schema=schema) if is_table else rows.replace_schema(schema)
    found = engine.from_arrow(labelled)
    found = found if judges_arrow() else found.limit(ALL_ROWS)
    columns = all_columns(rows.schema, found.columns, shapes=judges_arrow())
    return found if columns == "*" else found.project(columns)


def judges_arrow() -> bool:
    """Whether DuckDB filters rows of Arrow itself.

    Release 1, the newest for Python 3.10, lets Arrow filter them, and Arrow does not order NaN above other numbers. A
    limit in between prevents it.
    """
    return not library("duckdb", "sql").__version__.startswith("1.")


def settings_of_release() -> Sequence[str]:
    """Returns settings without which Arrow would still apply conditions that DuckDB derives from joins."""
    return () if judges_arrow() else ("SET disabled_optimizers = 'join_filter_pushdown'",)


def close_off(engine: Any) -> None:
    """Restrict the DuckDB connection ``engine`` to the data that it was given, and is given from now on."""
    for setting in SANDBOX:
        engine.execute(setting)
