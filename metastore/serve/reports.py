"""What is kept of a client's metrics report: numbers, names of columns and the filter's shape, no values. Pure.

A literal of a filter is replaced by a keyed digest, so that equal literals of one process can be told, and none can be
read. Every other text of the caller is cut.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Final

_NUMBERS: Final = ("snapshot-id", "schema-id", "sequence-number")
_TEXTS: Final = frozenset({"type", "term", "transform"})
_PARTS: Final = frozenset({"term", "left", "right", "child"})
_LONGEST: Final = 200
_DEEPEST: Final = 50
_MOST: Final = 200


def kept_of(report: Mapping[str, Any], key: bytes) -> dict[str, Any]:
    """Return what is kept of ``report``; ``key`` (up to 64 bytes) makes the digests of literals."""
    kept: dict[str, Any] = {"report-type": _cut(report.get("report-type"))}
    kept |= {name: report[name] for name in _NUMBERS if isinstance(report.get(name), int)}
    if "filter" in report:
        kept["filter"] = _hash_literals(report["filter"], key)
    columns = report.get("projected-field-names")
    if isinstance(columns, list):
        kept["projected-field-names"] = [_cut(each) for each in columns[:_MOST]]
    metrics = report.get("metrics")
    if isinstance(metrics, dict):
        kept["metrics"] = {_cut(name): _measure(each) for name, each in list(metrics.items())[:_MOST]}
    return kept


def _hash_literals(node: Any, key: bytes, depth: int = 0) -> Any:
    """Return the part of a filter with its literals hashed: only the known keys of operators keep their texts."""
    if not isinstance(node, dict) or depth == _DEEPEST:
        return node if node is None or isinstance(node, bool) else _digests(node, key)
    kept = {}
    for name, each in list(node.items())[:_MOST]:
        if name in _TEXTS and isinstance(each, str):
            kept[name] = _cut(each)
        else:
            kept[_cut(name)] = _hash_literals(each, key, depth + 1) if name in _PARTS else _digests(each, key)
    return kept


def _digests(value: Any, key: bytes) -> Any:
    if isinstance(value, list):
        return [_digest(each, key) for each in value[:_MOST]]
    return _digest(value, key)


def _digest(value: Any, key: bytes) -> str:
    return hashlib.blake2b(repr(value).encode("utf-8", "backslashreplace"), key=key, digest_size=8).hexdigest()


def _measure(value: Any) -> Any:
    """Return the numbers of a counter or timer."""
    if not isinstance(value, dict):
        return None
    return {_cut(name): each for name, each in list(value.items())[:_MOST] if isinstance(each, (int, float))}


def _cut(text: Any) -> str:
    return str(text)[:_LONGEST]
