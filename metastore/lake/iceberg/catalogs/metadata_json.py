"""Reads the JSON of a metadata file: within the read limits, uncompressed, and checked to be table metadata."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from typing import Any

from pyiceberg.io import FileIO

from metastore.errors import FormatError, StorageError
from metastore.lake.iceberg.catalogs.catalog_errors import error_text
from metastore.lake.stores.bounded_reading import ReadLimits, gunzip, whole


def read_document(io: FileIO, location: str) -> Mapping[str, Any]:
    """Return the JSON of a metadata file. Raises FileNotFoundError, StorageError, FormatError."""
    try:
        limit = ReadLimits.of(io.properties).limit_of("metadata_json")
        content = whole(io.new_input(location), limit)
        is_packed = ".gz." in location or location.endswith(".gz")
        found = json.loads(gunzip(content, location, limit) if is_packed else content)
    except FileNotFoundError:
        raise
    except (ValueError, EOFError, zlib.error) as error:
        raise FormatError(f"{location} is not the metadata of an Iceberg table: {error}") from error
    except OSError as error:
        raise StorageError(f"cannot read the metadata file {location}: {error_text(error)}") from error
    return require_metadata(found, location)


def require_metadata(content: object, location: str) -> Mapping[str, Any]:
    """Return ``content``, the JSON of the file at ``location``. FormatError if it is not table metadata."""
    if not isinstance(content, dict) or not isinstance(content.get("location"), str):
        raise FormatError(f"{location} is not the metadata of an Iceberg table: it names no location")
    return content
