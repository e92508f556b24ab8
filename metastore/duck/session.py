"""DuckDB for one piece of work: in a time zone, and closed off from the machine where text of others is run.

Place in the flow: whoever has DuckDB judge rows, run a SELECT or a view takes its settings from here. What is handed to
a user (``scan.to_duckdb()``) is not closed off: it is theirs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import tzinfo
from typing import Any, Final

from metastore.duck.optional import library
from metastore.errors import InvalidRequestError
from metastore.formats.arrow_schema import require_narrow_decimals

SANDBOX: Final = (
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
"""After these a query reads what it was given and nothing else of the machine, and cannot take them back."""

_OFFSET: Final = re.compile(r"UTC([+-]\d\d:\d\d(?::\d\d)?)")

ALL_ROWS: Final = 2**62
"""A limit that leaves all rows, and keeps conditions from what is limited (:func:`judges_arrow`)."""


def connection(zone: tzinfo) -> Any:
    """A new DuckDB connection whose session is in ``zone``.

    InvalidRequestError if DuckDB is not installed, and for a zone that it does not know.
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
    """What DuckDB calls ``zone``: release 2 knows all offsets from GMT, 1 those of whole hours with the sign turned."""
    offset = _OFFSET.fullmatch(str(zone))
    if offset is None:
        return str(zone)
    hours, _, rest = offset[1].partition(":")
    return f"GMT{offset[1]}" if judges_arrow() or rest != "00" else f"Etc/GMT{-int(hours):+d}"


def relation(engine: Any, rows: Any) -> Any:
    """An Arrow table or dataset as a relation of the DuckDB connection ``engine``, which judges the rows itself.

    InvalidRequestError for a column that DuckDB cannot hold.
    """
    require_narrow_decimals(rows.schema, "DuckDB")
    found = engine.from_arrow(rows)
    return found if judges_arrow() else found.limit(ALL_ROWS)


def judges_arrow() -> bool:
    """Whether DuckDB judges rows of Arrow itself.

    Release 1, the newest for Python 3.10, has Arrow do it, to which no NaN is large; not where there is a limit in
    between.
    """
    return not library("duckdb", "sql").__version__.startswith("1.")


def settings_of_release() -> Sequence[str]:
    """Settings without which conditions that come of joins are judged by Arrow all the same."""
    return () if judges_arrow() else ("SET disabled_optimizers = 'join_filter_pushdown'",)


def close_off(engine: Any) -> None:
    """Leave to the DuckDB connection ``engine`` nothing but what it has been given, and is given from here on."""
    for setting in SANDBOX:
        engine.execute(setting)
