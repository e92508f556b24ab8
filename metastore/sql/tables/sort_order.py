"""The sort order of a table, in ALTER TABLE: Spark's ``WRITE ORDERED BY`` and Trino's ``sorted_by``.

::

    WRITE [DISTRIBUTED BY PARTITION] [LOCALLY] ORDERED BY term [ASC | DESC] [NULLS {FIRST | LAST}], …
    WRITE UNORDERED

The order holds for rows to come. As in Spark, WRITE also sets how Spark distributes rows that it writes: ``range`` for
an order, ``none`` for LOCALLY and UNORDERED, ``hash`` with DISTRIBUTED BY PARTITION.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from pyiceberg.schema import Schema
from pyiceberg.table import Transaction
from pyiceberg.table.sorting import UNSORTED_SORT_ORDER, NullOrder, SortDirection, SortField
from sqlglot import Token, TokenType

from metastore.lake.writes.job import SortKey
from metastore.lake.writes.sorting import sort_keys, why_not_sortable
from metastore.sql.statement import Cursor
from metastore.sql.tables.action_lists import next_item
from metastore.sql.tables.partition_fields import Change, ColumnLookup, PartitionTerm, partition_term
from metastore.sql.tables.property_changes import apply_properties

_DISTRIBUTION: Final = "write.distribution-mode"


def sort_fields(keys: Sequence[SortKey]) -> tuple[SortField, ...]:
    """Returns keys of a sort as the fields of an order."""
    return tuple(
        SortField(
            source_id=key.source_id,
            transform=key.transform,
            direction=SortDirection.DESC if key.descending else SortDirection.ASC,
            null_order=NullOrder.NULLS_FIRST if key.nulls_first else NullOrder.NULLS_LAST,
        )
        for key in keys
    )


def sorted_by(cursor: Cursor) -> Change:
    """Read ``ARRAY['a DESC', …]`` or DEFAULT, the value of Trino's property; returns the change."""
    token = cursor.token
    texts = [] if cursor.accept_word("DEFAULT") else order_texts(cursor)

    def change(transaction: Transaction) -> None:
        assert token is not None
        with cursor.statement.at(token):
            schema = transaction.table_metadata.schema()
            keys = sort_keys("", schema, UNSORTED_SORT_ORDER, texts) if texts else ()
        _set_order(transaction, sort_fields(keys))

    return change


def order_texts(cursor: Cursor) -> list[str]:
    """Read ``ARRAY['ts DESC', …]``."""
    cursor.expect_word("ARRAY")
    cursor.expect(TokenType.L_BRACKET, "[")
    what = "a text such as 'ts DESC'"
    return cursor.list_before(TokenType.R_BRACKET, "]", lambda: cursor.expect(TokenType.STRING, what).text)


def write_order(cursor: Cursor) -> tuple[Change, str]:
    """Read what follows WRITE; returns the change, and its description."""
    by_partition = cursor.accept_word("DISTRIBUTED")
    if by_partition:
        for word in ("BY", "PARTITION"):
            cursor.expect_word(word)
    if not by_partition and cursor.accept_word("UNORDERED"):
        return _change("none", ()), "new rows are written in any order"
    locally = cursor.accept_word("LOCALLY")
    ordered = cursor.accept_word("ORDERED")
    if not ordered and (locally or not by_partition):
        raise cursor.expectation_error("ORDERED BY" if locally else "ORDERED BY, LOCALLY, DISTRIBUTED BY or UNORDERED")
    terms: list[_OrderTerm] = []
    if ordered:
        cursor.expect_word("BY")
        terms.append(_OrderTerm(cursor))
        while next_item(cursor):
            terms.append(_OrderTerm(cursor))
    mode = "hash" if by_partition else "none" if locally else "range"
    summary = (
        f"new rows are ordered by {', '.join(map(str, terms))}" if terms else "new rows are distributed by partition"
    )
    return _change(mode, terms), summary


class _OrderTerm:
    """One term of WRITE ORDERED BY, as it is read from a cursor."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._term: PartitionTerm = partition_term(cursor)
        self._descending = cursor.accept_word("DESC")
        if not self._descending:
            cursor.accept_word("ASC")
        self._nulls_first = not self._descending
        if cursor.accept_word("NULLS"):
            self._nulls_first = cursor.accept_word("FIRST")
            if not self._nulls_first:
                cursor.expect_word("LAST")

    def __str__(self) -> str:
        return f"{self._term}{' DESC' if self._descending else ''}"

    def key(self, transaction: Transaction) -> SortKey:
        """Returns the key. Raises InvalidRequestError, at the term, for one that rows cannot be sorted by."""
        schema: Schema = transaction.table_metadata.schema()
        field = ColumnLookup(self._cursor.statement).field(transaction, self._term.names)
        transform = self._term.transform
        why = why_not_sortable(schema, field)
        if why is None and not transform.can_transform(field.field_type):
            why = f"is {field.field_type}, to which the transform does not apply"
        if why is not None:
            raise self._error(f"{self._term}: {field.name} {why}", self._term.token)
        return SortKey(field.field_id, transform, descending=self._descending, nulls_first=self._nulls_first)

    @property
    def _error(self) -> Callable[[str, Token | None], Exception]:
        return self._cursor.statement.error


def _change(mode: str, terms: Sequence[_OrderTerm]) -> Change:
    def change(transaction: Transaction) -> None:
        _set_order(transaction, sort_fields([term.key(transaction) for term in terms]))
        apply_properties(transaction, {_DISTRIBUTION: mode})

    return change


def _set_order(transaction: Transaction, fields: Sequence[SortField]) -> None:
    metadata = transaction.table_metadata
    present = metadata.sort_order_by_id(metadata.default_sort_order_id)
    if present is not None and list(present.fields) == list(fields):
        return
    schema: Any = metadata.schema()
    with transaction.update_sort_order() as update:
        for field in fields:
            add = update.desc if field.direction == SortDirection.DESC else update.asc
            add(schema.find_column_name(field.source_id), field.transform, field.null_order)
