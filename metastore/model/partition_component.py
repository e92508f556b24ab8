"""The partition component of row ids: twelve bytes that name one state of one top-level segment of one table.

Place in the flow: ANALYZE stores the component with the segment's unit; row ids (:mod:`metastore.scan.pruning.row_id`)
end with it. It is computed only from the table, the segment and the state. Two states of a segment therefore have two
components, whichever run analyzed them. If the same state is analyzed again (other columns, another level, two
concurrent runs), it keeps its component, and row ids stay valid.

Layout, version 1: 1 byte version, 2 bytes table, 3 bytes segment, 6 bytes state of the segment's files. The parts let
an error distinguish an id of another table from one of an older state, and name the segment. Only all twelve bytes
together identify.
"""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Final

from metastore.ground.digests import digest
from metastore.model.identity import TableInfo

VERSION: Final = 1
LENGTH: Final = 12

_TABLE_BYTES: Final = 2
_SEGMENT_BYTES: Final = 3
_STATE_BYTES: Final = 6
_NAME: Final = "metastore.partition"


def partition_component(table: TableInfo, key: str, state: str) -> bytes:
    """The component of the segment with metadata ``key``, whose files are in ``state`` (a text)."""
    names = (table.storage_plugin, table.workspace, table.name)
    of_segment = segment_prefix(table, key)
    return of_segment + _digest(_STATE_BYTES, *names, key, state)


@lru_cache(maxsize=16)
def table_prefix(table: TableInfo) -> bytes:
    """The common prefix of the components of all segments of ``table``."""
    return bytes((VERSION,)) + _digest(_TABLE_BYTES, table.storage_plugin, table.workspace, table.name)


def segment_prefix(table: TableInfo, key: str) -> bytes:
    """The common prefix of the components of all states of one segment."""
    names = (table.storage_plugin, table.workspace, table.name)
    return table_prefix(table) + _digest(_SEGMENT_BYTES, *names, key)


def component_entry(component: bytes) -> dict[str, str]:
    """The entry for ``component`` in a segment's ``additionalMetadata``."""
    return {_NAME: component.hex()}


def component_in(additional_metadata: str | None) -> bytes | None:
    """The component in a segment's ``additionalMetadata``; None if another program wrote the unit."""
    try:
        found = json.loads(additional_metadata or "{}")
        component = bytes.fromhex(found[_NAME])
    except (ValueError, KeyError, TypeError):
        return None
    return component if len(component) == LENGTH and component[0] == VERSION else None


def _digest(size: int, *texts: str) -> bytes:
    return digest(repr(texts), size)
