"""Delta tables' logs by hand: what deltalake reads and does not write, which is column mapping and deletion vectors."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyroaring import BitMap

_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_MAGIC = 1681511377


def commit(place: Path, *actions: Mapping[str, Any]) -> None:
    """The next version of the table at ``place``."""
    log = place / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    version = len(list(log.glob("*.json")))
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))


def actions(place: Path, kind: str) -> list[dict[str, Any]]:
    """All actions of one kind, the oldest first."""
    lines = [line for file in sorted((place / "_delta_log").glob("*.json")) for line in file.read_text().splitlines()]
    return [found[kind] for found in map(json.loads, lines) if kind in found]


def upgraded(*features: str) -> dict[str, Any]:
    """The action that makes a table ask its readers for ``features``."""
    versions = {"minReaderVersion": 3, "minWriterVersion": 7}
    return {"protocol": {**versions, "readerFeatures": list(features), "writerFeatures": list(features)}}


def delete_rows(place: Path, path: str, rows: Sequence[int]) -> None:
    """Replace the deletion vector of the file that the log calls ``path``; the table has the feature from now on."""
    [*_, before] = [action for action in actions(place, "add") if action["path"] == path]
    if before.get("deletionVector") == vector(rows):
        return  # a version cannot take the very entry away that it adds
    removed: dict[str, Any] = {"deletionTimestamp": 1, "dataChange": True}
    removed |= {key: before[key] for key in ("path", "deletionVector") if key in before}
    known = any("deletionVectors" in found.get("readerFeatures", ()) for found in actions(place, "protocol"))
    upgrade = [] if known else [_WITH_VECTORS]
    commit(place, *upgrade, {"remove": removed}, {"add": {**before, "deletionVector": vector(rows)}})


def vector(rows: Sequence[int]) -> dict[str, Any]:
    """A deletion vector that stands in the log itself."""
    data = struct.pack("<IQI", _MAGIC, 1, 0) + BitMap(rows).serialize()
    return {
        "storageType": "i",
        "pathOrInlineDv": _in_z85(data),
        "sizeInBytes": len(data),
        "cardinality": len(rows),
    }


def mapped(name: str, stored: str, number: int, type_: Any) -> dict[str, Any]:
    """A column called ``name`` that files call ``stored``."""
    known = {"delta.columnMapping.id": number, "delta.columnMapping.physicalName": stored}
    return {"name": name, "type": type_, "nullable": True, "metadata": known}


def table_of(columns: Sequence[Mapping[str, Any]], partitions: Sequence[str] = (), **settings: str) -> dict[str, Any]:
    """The action that says what a table's columns are."""
    return {
        "metaData": {
            "id": "265bf06a-c006-4974-9de9-afeb458c930c",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": columns}),
            "partitionColumns": partitions,
            "createdTime": 1,
            "configuration": {f"delta.{key.replace('_', '.')}": value for key, value in settings.items()},
        }
    }


def added(place: Path, path: str, statistics: Mapping[str, Any], **partition: str | None) -> dict[str, Any]:
    """The action that adds a file."""
    size = (place / path).stat().st_size
    known = {"partitionValues": partition, "size": size, "modificationTime": 1, "dataChange": True}
    return {"add": {"path": path, **known, "stats": json.dumps(statistics)}}


_WITH_VECTORS = upgraded("deletionVectors", "timestampNtz")


def _in_z85(data: bytes) -> str:
    padded = data + bytes(-len(data) % 4)
    text = ""
    for start in range(0, len(padded), 4):
        value = int.from_bytes(padded[start : start + 4], "big")
        text += "".join(_Z85[value // 85**place % 85] for place in (4, 3, 2, 1, 0))
    return text
