"""Finds column types that PyIceberg does not support, such as ``variant``, in the JSON of a table's metadata.

PyIceberg parses a table as a whole, and reports a table with such a type as invalid. The error should name the type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyiceberg.types import NestedField

import metastore.lake.iceberg.columns.type_spellings  # noqa: F401 - PyIceberg parses these types as soon as this is imported


def unknown_types(content: Mapping[str, Any]) -> dict[str, str]:
    """Return columns of the current schema with unsupported types: dotted name to type, as written."""
    schemas = content.get("schemas", [])
    current = [each for each in schemas if each.get("schema-id") == content.get("current-schema-id")]
    return dict(_unknown("", {"type": "struct", **(current or schemas or [{}])[-1]}))


def _unknown(path: str, kind: Any) -> Iterator[tuple[str, str]]:
    """Yield the primitive types below ``kind``, a type in JSON, that PyIceberg does not support."""
    if isinstance(kind, str):
        try:
            NestedField.model_validate({"id": 1, "name": "column", "required": False, "type": kind})
        except ValueError:
            yield path, kind
        return
    for field in kind.get("fields", []):
        yield from _unknown(f"{path}.{field['name']}".lstrip("."), field["type"])
    for part in ("element", "key", "value"):
        if part in kind:
            yield from _unknown(f"{path}.{part}", kind[part])
