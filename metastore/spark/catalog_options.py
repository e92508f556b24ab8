"""The options of ``CREATE TABLE … USING metastore OPTIONS (…)``, kept in the schema that Spark's catalog stores.

Place in the flow: Spark passes the options of a persistent table to the source only while the table is created. Later
scans get the stored schema and no options (PySpark 4.3). So :func:`with_options` puts them into the metadata of the
first column, and :func:`stored_options` reads them again. A scan that has a path of its own ignores them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql.types import StructField, StructType

_KEY: Final = "metastore.options"
_OPTION: Final = "option."
"""The prefix of the user's options among the properties of a table of Spark's catalog."""


def options_of_creation(options: Mapping[str, str]) -> dict[str, str] | None:
    """Returns the user's options if Spark asks on behalf of CREATE TABLE, else None. Keys are in lower case.

    Spark then adds properties of its own, such as ``owner`` and ``provider``, and the properties of TBLPROPERTIES.
    """
    given = {key.lower(): value for key, value in options.items()}
    if not {"provider", "owner"} <= given.keys():
        return None
    own = {key.removeprefix(_OPTION): value for key, value in given.items() if key.startswith(_OPTION)}
    place = given.get("path") or given.get("location")
    return own if place is None else {**own, "path": place}


def with_options(schema: StructType, options: Mapping[str, str]) -> StructType:
    """Returns ``schema`` with ``options`` in the metadata of its first column."""
    first, *others = schema
    metadata = {**first.metadata, _KEY: json.dumps(dict(options))}
    return StructType([StructField(first.name, first.dataType, first.nullable, metadata), *others])


def stored_options(schema: StructType, options: Mapping[str, str]) -> dict[str, str]:
    """Returns the options of a scan: ``options``, over those in ``schema`` if ``options`` name no table."""
    if any(key.lower() == "path" for key in options):
        return dict(options)
    stored = next((field.metadata[_KEY] for field in schema if _KEY in (field.metadata or {})), "{}")
    return {**json.loads(stored), **{key.lower(): value for key, value in options.items()}}
