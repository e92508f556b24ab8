"""DuckDB for one piece of work: in a time zone, and closed off from the machine where text of others is run.

Place in the flow: whoever has DuckDB judge rows, run a SELECT or a view takes its settings from here. What is handed to
a user (``scan.to_duckdb()``) is not closed off: it is theirs.
"""

from __future__ import annotations

import re
from datetime import tzinfo
from typing import Any, Final

from metastore.errors import InvalidRequestError
from metastore.scan.optional import library

SANDBOX: Final = (
    "SET python_enable_replacements = false",
    "SET autoinstall_known_extensions = false",
    "SET autoload_known_extensions = false",
    "SET allow_community_extensions = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
"""After these a query reads what it was given and nothing else of the machine, and cannot take them back."""


def connection(zone: tzinfo) -> Any:
    """A new DuckDB connection whose session is in ``zone``.

    InvalidRequestError if DuckDB is not installed, and for a zone that it does not know.
    """
    duckdb = library("duckdb", "sql")
    made = duckdb.connect()
    try:
        # It knows all offsets from GMT, and from UTC but some.
        made.execute(f"SET TimeZone = '{re.sub('^UTC(?=[+-])', 'GMT', str(zone))}'")
    except duckdb.Error as error:
        raise InvalidRequestError(f"DuckDB knows no time zone {zone}: {error}") from error
    return made


def close_off(engine: Any) -> None:
    """Leave to the DuckDB connection ``engine`` nothing but what it has been given, and is given from here on."""
    for setting in SANDBOX:
        engine.execute(setting)
