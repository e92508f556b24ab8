"""Builds a Puffin file: blobs one after another, and a footer with their types and offsets."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

THETA: Final = "apache-datasketches-theta-v1"

_MAGIC: Final = b"PFA1"
_NO_FLAGS: Final = b"\0\0\0\0"
_CREATED_BY: Final = "drill metastore for data lakes"


@dataclass(frozen=True)
class Blob:
    """One uncompressed blob about ``fields`` (IDs) of a snapshot."""

    kind: str
    fields: Sequence[int]
    snapshot_id: int
    sequence_number: int
    content: bytes
    properties: Mapping[str, str]


def puffin_file(blobs: Sequence[Blob]) -> tuple[bytes, int]:
    """Returns the content of the file, and the length of its footer in bytes."""
    body, described = bytearray(_MAGIC), []
    for blob in blobs:
        described.append(
            {
                "type": blob.kind,
                "fields": list(blob.fields),
                "snapshot-id": blob.snapshot_id,
                "sequence-number": blob.sequence_number,
                "offset": len(body),
                "length": len(blob.content),
                "properties": dict(blob.properties),
            }
        )
        body += blob.content
    payload = json.dumps({"blobs": described, "properties": {"created-by": _CREATED_BY}}).encode()
    footer = _MAGIC + payload + struct.pack("<i", len(payload)) + _NO_FLAGS + _MAGIC
    return bytes(body) + footer, len(footer)
