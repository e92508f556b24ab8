"""Reads the JSON of a metadata file: within the read limits, uncompressed, and checked to be table metadata."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from pyiceberg.io import FileIO
from pyiceberg.table.metadata import TableMetadata

from metastore.errors import FormatError, StorageError
from metastore.lake.iceberg.catalogs.catalog_errors import UNREADABLE, error_text
from metastore.lake.stores.bounded_reading import ReadLimits, gunzip, table_metadata, whole
from metastore.redaction import showable


def read_document(io: FileIO, location: str) -> Mapping[str, Any]:
    """Return the JSON of a metadata file. Raises FileNotFoundError, StorageError, FormatError."""
    try:
        limit = ReadLimits.of(io.properties).limit_of("metadata_json")
        content = whole(io.new_input(location), limit)
        is_packed = ".gz." in location or location.endswith(".gz")
        found = json.loads(gunzip(content, location, limit) if is_packed else content)
    except FileNotFoundError:
        raise
    except (ValueError, RecursionError, EOFError, zlib.error) as error:
        raise FormatError(f"{location} is not the metadata of an Iceberg table: {error}") from error
    except OSError as error:
        raise StorageError(f"cannot read the metadata file {location}: {error_text(error)}") from error
    return require_metadata(found, location)


def read_metadata(io: FileIO, location: str) -> TableMetadata:
    """Return the metadata in a file. Raises FormatError, which names the file, and the store's OSError."""
    try:
        return table_metadata(io.new_input(location))
    except UNREADABLE as error:
        text = f"{location} is not the metadata of an Iceberg table: {error_text(error)}"
        raise FormatError(text) from showable(error)


def require_metadata(content: object, location: str) -> Mapping[str, Any]:
    """Return ``content``, the JSON of the file at ``location``. FormatError if it is not table metadata."""
    if not isinstance(content, dict) or not isinstance(content.get("location"), str):
        raise FormatError(f"{location} is not the metadata of an Iceberg table: it names no location")
    return content
