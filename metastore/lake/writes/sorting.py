"""The sort order of a call: keys from text such as ``ts DESC NULLS LAST``, or from the table's own order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import NestedField, PrimitiveType

from metastore.errors import InvalidRequestError
from metastore.lake.writes.job import AlongCurve, SortKey
from metastore.lake.writes.limits import Strategy
from metastore.lake.writes.space_curves import MOST_COLUMNS

_KEY: Final = re.compile(
    r"(?P<column>.+?)(?:\s+(?P<way>ASC|DESC))?(?:\s+NULLS\s+(?P<nulls>FIRST|LAST))?", re.IGNORECASE
)

_CURVE: Final = re.compile(r"(?P<kind>zorder|hilbert)\s*\((?P<columns>.*)\)", re.IGNORECASE | re.DOTALL)


def strategy_of(strategy: str | None, sorted_by: Sequence[str]) -> Strategy:
    """Returns ``binpack`` or ``sort``; the default is ``sort`` if an order is given. Raises InvalidRequestError."""
    name = strategy.strip().lower() if strategy is not None else "sort" if sorted_by else "binpack"
    if name == "binpack":
        if sorted_by:
            raise InvalidRequestError("strategy binpack keeps the order of rows; sorted_by needs strategy => 'sort'")
        return "binpack"
    if name == "sort":
        return "sort"
    raise InvalidRequestError(f"unsupported strategy: {strategy}. Only binpack or sort is supported")


def rewriting_order(
    name: str, schema: Schema, order: SortOrder, sorted_by: Sequence[str]
) -> tuple[SortKey | AlongCurve, ...]:
    """Returns the keys as :func:`sort_keys`, or one along a curve for ``zorder(a, b)`` or ``hilbert(a, b)``, alone."""
    found = [match for text in sorted_by if (match := _CURVE.fullmatch(text.strip()))]
    if not found:
        return sort_keys(name, schema, order, sorted_by)
    if len(sorted_by) > 1:
        raise InvalidRequestError(f"sorted_by: {found[0][0]} cannot be combined with other keys")
    return (_curve(schema, found[0]),)


def sort_keys(name: str, schema: Schema, order: SortOrder, sorted_by: Sequence[str]) -> tuple[SortKey, ...]:
    """Returns the keys of ``sorted_by``, or those of the table's ``order`` if it is empty.

    Raises InvalidRequestError if a key does not name a sortable column, or there is no order at all.
    """
    if sorted_by:
        return tuple(_key(schema, text) for text in sorted_by)
    if not order.fields:
        raise InvalidRequestError(
            f"table {name} has no sort order of its own; give one, as sorted_by => ARRAY['ts DESC', 'id']"
        )
    return tuple(
        SortKey(
            field.source_id,
            field.transform,
            descending=field.direction == SortDirection.DESC,
            nulls_first=field.null_order == NullOrder.NULLS_FIRST,
        )
        for field in order.fields
    )


def _curve(schema: Schema, match: re.Match[str]) -> AlongCurve:
    texts = [text.strip() for text in match["columns"].split(",")]
    ids = tuple(_sortable(schema, text) for text in texts)
    if len(set(ids)) < len(ids) or len(ids) > MOST_COLUMNS:
        raise InvalidRequestError(f"sorted_by: {match[0]} needs 1 to {MOST_COLUMNS} columns, each once")
    return AlongCurve(ids, "hilbert" if match["kind"].lower() == "hilbert" else "zorder")


def _key(schema: Schema, text: str) -> SortKey:
    if _CURVE.fullmatch(text.strip()):
        raise InvalidRequestError(
            f"sorted_by: {text} is for rewrite_data_files only; a table's sort order cannot have it"
        )
    match = _KEY.fullmatch(text.strip())
    if match is None:
        raise InvalidRequestError(f"sorted_by: {text!r} is no key; a column is expected, then ASC or DESC, NULLS FIRST")
    field_id = _sortable(schema, match["column"].strip())
    descending = (match["way"] or "ASC").upper() == "DESC"
    nulls_first = match["nulls"].upper() == "FIRST" if match["nulls"] else not descending
    return SortKey(field_id, IdentityTransform(), descending=descending, nulls_first=nulls_first)


def _sortable(schema: Schema, text: str) -> int:
    """Returns the field id of the column that ``text`` names. Raises InvalidRequestError."""
    column = text.strip('"`')
    try:
        field = schema.find_field(column, case_sensitive=False)
    except ValueError as error:
        known = ", ".join(field.name for field in schema.fields)
        raise InvalidRequestError(f"sorted_by: there is no column {column!r}; there are {known}") from error
    if (why := why_not_sortable(schema, field)) is not None:
        raise InvalidRequestError(f"sorted_by: {column} {why}")
    return field.field_id


def why_not_sortable(schema: Schema, field: NestedField) -> str | None:
    """Why rows cannot be sorted by ``field``; None if they can."""
    if not isinstance(field.field_type, PrimitiveType):
        return f"is {field.field_type}, by which rows cannot be sorted"
    if not _is_reached_by_structs(schema, field.field_id):
        return "is inside a list or map, so a row may have many values of it"
    return None


def _is_reached_by_structs(schema: Schema, field_id: int) -> bool:
    """Returns whether each row has exactly one value of the field: only then does it have an accessor."""
    try:
        schema.accessor_for_field(field_id)
    except ValueError:
        return False
    return True
