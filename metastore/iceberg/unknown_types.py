"""Types of columns that PyIceberg does not know, such as ``variant``, by the JSON of a table's metadata.

PyIceberg parses a table as a whole, and says of such a one that it is no table. The error for it is to name the type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pyiceberg.types import NestedField


def unknown_types(content: Mapping[str, Any]) -> dict[str, str]:
    """Columns of the current schema whose types cannot be read here: dotted name to type, as they are written."""
    schemas = content.get("schemas", [])
    current = [each for each in schemas if each.get("schema-id") == content.get("current-schema-id")]
    return dict(_unknown("", {"type": "struct", **(current or schemas or [{}])[-1]}))


def _unknown(path: str, kind: Any) -> Iterator[tuple[str, str]]:
    """The primitive types below ``kind``, a type as JSON has it, that PyIceberg does not know."""
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
