"""Finds the row ids that a condition asks for. Statistics cannot test row ids.

A scan reads the row groups they name.
"""

from __future__ import annotations

import re
from typing import Final

from sqlglot import exp

from metastore.predicates.condition import Condition
from metastore.scan.pruning.row_id import ROW_ID

_ESCAPE: Final = re.compile(r"\\x([0-9a-fA-F]{2})")


def row_ids_in(condition: Condition) -> list[bytes] | None:
    """The ids of which every row of ``condition`` has one; None if the condition does not list them as constants."""
    found: list[bytes] | None = None
    tree = condition.tree.unnest()
    for part in tree.flatten() if isinstance(tree, exp.And) else (tree,):
        ids = _ids_of(part.unnest(), condition)
        if ids is not None:
            found = ids if found is None else [one for one in found if one in set(ids)]
    return found


def reason_without_ids(condition: Condition) -> str | None:
    """The reason why a condition on ``$row_id`` cannot select row groups; None if it has no such column."""
    if not any(_is_row_id(node, condition) for node in condition.tree.find_all(exp.Column)):
        return None
    return "$row_id chooses row groups only by = and IN with constants, from_hex('…') or '…'::BLOB, that AND connects"


def _ids_of(part: exp.Expr, condition: Condition) -> list[bytes] | None:
    if isinstance(part, exp.EQ):
        for side, other in ((part.this, part.expression), (part.expression, part.this)):
            if _is_row_id(side, condition) and (value := _bytes(other)) is not None:
                return [value]
    if isinstance(part, exp.In) and part.expressions and _is_row_id(part.this, condition):
        values = [_bytes(each) for each in part.expressions]
        return None if None in values else list(dict.fromkeys(value for value in values if value is not None))
    return None


def _is_row_id(node: exp.Expr, condition: Condition) -> bool:
    return isinstance(node, exp.Column) and condition.path_of(node) == (ROW_ID,)


def _bytes(node: exp.Expr) -> bytes | None:
    """The bytes of a constant: ``X'…'``, ``from_hex('…')``, ``unhex('…')``, or a text cast to BLOB. None for others."""
    node = node.unnest()
    if isinstance(node, exp.HexString):
        return _of_hex(str(node.this))
    text = node.this
    if not isinstance(text, exp.Literal) or not text.is_string:
        return None
    if isinstance(node, exp.Unhex):
        return _of_hex(text.this)
    if isinstance(node, exp.Cast) and node.to.is_type("varbinary"):
        decoded = _ESCAPE.sub(lambda code: chr(int(code[1], 16)), text.this)
        return decoded.encode("latin-1") if text.this.isascii() else None
    return None


def _of_hex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None
