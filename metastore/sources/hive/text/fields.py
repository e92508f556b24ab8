"""Splits lines into the raw fields of each column, by one SerDe. The result is None for a column with uncertain fields.

Missing fields are null, extra fields are ignored. If a SerDe reads a line in an unusual way (for example a quote in the
middle of a field), the whole batch is unknown, and only its rows are counted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from metastore.sources.hive.text.lines import Lines
from metastore.sources.hive.text.serdes import SerdeKind, TextSerde

Raw = Any
"""A column's fields: an Arrow array of texts or bytes with nulls, or a list of JSON values."""

Fields = Sequence[Raw | None]


def fields(lines: Lines, names: Sequence[str], serde: TextSerde) -> Fields:
    """Returns the fields of ``lines`` for each of the columns ``names``."""
    return _READERS[serde.rows](lines, names, serde)


def _split_delimited(lines: Lines, names: Sequence[str], serde: TextSerde) -> Fields:
    most = len(names) - 1 if serde.last_takes_rest else None
    escape = serde.escape
    if escape is not None and any(escape in line for line in lines):
        pattern = _escaped_field(serde.delimiter, escape)
        split = [_split_escaped(line, pattern, most, serde.delimiter) for line in lines]
        rows: Any = pa.array(split, pa.list_(pa.binary()))
    else:
        rows = _split(lines, serde.delimiter, most)
    columns = _columns(rows, len(names))
    known = [pc.if_else(pc.equal(column, pa.scalar(serde.null)), None, column) for column in columns]
    return known if escape is None else [_unescape(column, escape) for column in known]


def _csv(lines: Lines, names: Sequence[str], serde: TextSerde) -> Fields:
    assert serde.quote is not None
    assert serde.escape is not None
    special = (serde.quote, serde.escape)
    if any(each in line for line in lines for each in special):
        pattern = _quoted_field(serde.delimiter, *special)
        split = [_split_quoted(line, pattern, serde) for line in lines]
        if None in split:
            return [None] * len(names)
        rows: Any = pa.array(split, pa.list_(pa.binary()))
    else:
        rows = _split(lines, serde.delimiter, None)
    # For this SerDe an empty line has no field at all.
    blank = pc.equal(pa.array(lines, pa.binary()), pa.scalar(b""))
    return [pc.if_else(blank, None, column) for column in _columns(rows, len(names))]


def _json(lines: Lines, names: Sequence[str], _serde: TextSerde) -> Fields:
    documents = []
    for line in lines:
        try:
            document = json.loads(line, object_pairs_hook=_lower_names, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            return [None] * len(names)
        if not isinstance(document, dict):
            return [None] * len(names)
        documents.append(document)
    return [[document.get(name.lower()) for document in documents] for name in names]


def _lower_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = {name.lower(): value for name, value in pairs}
    if len(found) < len(pairs):
        raise ValueError("a name is there twice")
    return found


def _refuse_constant(constant: str) -> Any:
    raise ValueError(constant)


_READERS: Final[dict[SerdeKind, Callable[[Lines, Sequence[str], TextSerde], Fields]]] = {
    SerdeKind.DELIMITED: _split_delimited,
    SerdeKind.CSV: _csv,
    SerdeKind.JSON: _json,
}


def _split(lines: Lines, delimiter: bytes, most: int | None) -> Any:
    held: Any = pa.array(lines, pa.binary())
    return pc.split_pattern(held, delimiter, max_splits=most)  # type: ignore[call-overload] # the stubs know no bytes


def _columns(rows: Any, count: int) -> list[Any]:
    """Returns the first ``count`` fields of each row as columns; missing fields are null."""
    padded = pc.list_slice(rows, 0, count, return_fixed_size_list=True)
    return [pc.list_element(padded, at) for at in range(count)]


@lru_cache(maxsize=16)
def _escaped_field(delimiter: bytes, escape: bytes) -> re.Pattern[bytes]:
    one, mark = re.escape(delimiter), re.escape(escape)
    return re.compile(rb"(?s)((?:" + mark + rb".|[^" + one + rb"])*)")


def _split_escaped(line: bytes, pattern: re.Pattern[bytes], most: int | None, delimiter: bytes) -> list[bytes]:
    """Returns the fields of a line with escaped delimiters, with their escapes."""
    found: list[bytes] = []
    at = 0
    while True:
        if most is not None and len(found) == most:
            found.append(line[at:])
            return found
        match = pattern.match(line, at)
        assert match is not None
        found.append(match.group(1))
        at = match.end()
        if line[at : at + 1] != delimiter:
            return found
        at += 1


def _unescape(column: Any, escape: bytes) -> Any:
    """Returns ``column`` without escapes, or None if some release of Hive may read an escape as a line break."""
    if not _occurs(column, escape):
        return column
    if _occurs(column, escape + b"n") or _occurs(column, escape + b"r"):
        return None
    mark = re.compile(rb"(?s)" + re.escape(escape) + rb"(.)")
    return pa.array([None if each is None else mark.sub(rb"\1", each) for each in column.to_pylist()], pa.binary())


def _occurs(column: Any, text: bytes) -> bool:
    found = pc.match_substring(column, text)  # type: ignore[call-overload] # the stubs know no bytes
    return bool(pc.any(found).as_py())


@lru_cache(maxsize=16)
def _quoted_field(delimiter: bytes, quote: bytes, escape: bytes) -> re.Pattern[bytes]:
    one, mark, slash = re.escape(delimiter), re.escape(quote), re.escape(escape)
    inside = rb"[^" + mark + slash + rb"]|" + mark + mark + rb"|" + slash + rb"[" + mark + slash + rb"]"
    plain = rb"[^" + one + mark + slash + rb"]*"
    field = rb"(?:" + mark + rb"((?:" + inside + rb")*)" + mark + rb"|(" + plain + rb"))"
    return re.compile(rb"(?s)" + field + rb"(" + one + rb"|$)")


def _split_quoted(line: bytes, pattern: re.Pattern[bytes], serde: TextSerde) -> list[bytes] | None:
    """Returns the fields of a line with quotes, or None for a line in an unusual form."""
    assert serde.quote is not None
    assert serde.escape is not None
    found: list[bytes] = []
    at = 0
    mark = re.compile(
        rb"[" + re.escape(serde.quote + serde.escape) + rb"]([" + re.escape(serde.quote + serde.escape) + rb"])"
    )
    while True:
        match = pattern.match(line, at)
        if match is None:
            return None
        quoted, plain, end = match.groups()
        found.append(plain if quoted is None else mark.sub(rb"\1", quoted))
        at = match.end()
        if not end:
            return found
