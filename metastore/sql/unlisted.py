"""Columns that a query has to name, ``$row_id`` and what the file of a row says, and how ``*`` is kept from them. Pure.

Place in the flow: SELECT asks here which of them a query means of a table. The table is given these, and each star of
the query that would show them says ``EXCLUDE``. Statistics cannot judge ``WHERE "$row_id" IN (…)``: its ids are read
here, so that the scan reads their row groups alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from sqlglot import exp

from metastore.errors import InvalidRequestError
from metastore.predicates.condition import Condition
from metastore.pruning.file_columns import PSEUDO_COLUMNS
from metastore.pruning.row_id import ROW_ID, TYPE
from metastore.quoting import double_quoted
from metastore.sql.query_text import QueryText, Reference

UNLISTED: Final[Mapping[str, pa.DataType]] = {**PSEUDO_COLUMNS, ROW_ID: TYPE}
"""All of them with their types, in the order that a table has them."""

_EXCLUDE: Final = re.compile(r"\*\s*(?:EXCLUDE|EXCEPT)\s*\(", re.IGNORECASE)
_ESCAPE: Final = re.compile(r"\\x([0-9a-fA-F]{2})")


def meant_of(tree: exp.Expr, table: exp.Table) -> frozenset[str]:
    """The columns among :data:`UNLISTED` that the query ``tree`` means of its node ``table``, unless that has its own.

    A name of Drill's (``filename``) without the table's is one only where the query reads no other table beside it, and
    gives nothing else this name.
    """
    select = table.find_ancestor(exp.Select)
    named = [column for column in tree.find_all(exp.Column) if column.name.lower() in UNLISTED]
    if select is None or not named:
        return frozenset()
    given = {each.alias.lower() for each in tree.find_all(exp.Alias) if each.this.name.lower() != each.alias.lower()}
    is_alone = not select.args.get("joins")

    def is_meant(column: exp.Column) -> bool:
        if column.table:
            return column.table.lower() == table.alias_or_name.lower()
        name = column.name.lower()
        is_own = column.find_ancestor(exp.Select) is select
        return is_own and (name.startswith("$") or (is_alone and name not in given))

    return frozenset(column.name.lower() for column in named if is_meant(column))


def stars_over(hidden: Iterable[tuple[exp.Table, Sequence[str]]]) -> Iterator[tuple[exp.Star, list[str]]]:
    """The stars that would show ``hidden`` columns of tables, each with the names that it has to leave out.

    InvalidRequestError for a NATURAL join, which would join by them.
    """
    found: dict[int, tuple[exp.Star, list[str]]] = {}
    for table, names in hidden:
        select = table.find_ancestor(exp.Select)
        if not names or select is None:
            continue
        if any(join.method.upper() == "NATURAL" for join in select.args.get("joins") or ()):
            raise InvalidRequestError(f"{', '.join(names)}: join with ON or USING; NATURAL would join by it too")
        for star in select.find_all(exp.Star):
            of = star.parent.table if isinstance(star.parent, exp.Column) else ""
            if star.find_ancestor(exp.Select) is not select or isinstance(star.parent, exp.Count):
                continue
            if not of or of.lower() == table.alias_or_name.lower():
                wanted = found.setdefault(id(star), (star, []))[1]
                wanted += [name for name in names if name not in wanted]
    yield from found.values()


def stars_without(query: QueryText, hidden: Mapping[Reference, Sequence[str]]) -> Iterator[tuple[tuple[int, int], str]]:
    """What to write in place of each star of ``query``, by its place, so that it leaves the ``hidden`` columns out.

    Raises InvalidRequestError where a star cannot say so.
    """
    for star, names in stars_over((reference.node, names) for reference, names in hidden.items()):
        left_out = ", ".join(map(double_quoted, names))
        start = star.meta.get("start", len(query.text))
        if not query.text.startswith("*", start):
            raise InvalidRequestError(f"{', '.join(names)}: say SELECT before FROM, with the columns that are wanted")
        if not star.args.get("except_"):
            yield (start, start + 1), f"* EXCLUDE ({left_out})"
            continue
        written = _EXCLUDE.match(query.text, start)
        if written is None:
            raise InvalidRequestError(f"{', '.join(names)}: put what * leaves out in brackets: * EXCLUDE (…)")
        yield (start, written.end()), f"* EXCLUDE ({left_out}, "


def row_ids_in(condition: Condition) -> list[bytes] | None:
    """The ids that every row of ``condition`` has one of; None where it does not say so with constants."""
    found: list[bytes] | None = None
    tree = condition.tree.unnest()
    for part in tree.flatten() if isinstance(tree, exp.And) else (tree,):
        ids = _ids_of(part.unnest(), condition)
        if ids is not None:
            found = ids if found is None else [one for one in found if one in set(ids)]
    return found


def reason_without_ids(condition: Condition) -> str | None:
    """Why a condition on ``$row_id`` chooses no row groups; None where there is none."""
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
    """The bytes that a constant is: ``X'…'``, ``from_hex('…')``, ``unhex('…')``, a text cast to BLOB."""
    node = node.unnest()
    if isinstance(node, exp.HexString):
        return _of_hex(str(node.this))
    text = node.this
    if not isinstance(text, exp.Literal) or not text.is_string:
        return None
    if isinstance(node, exp.Unhex):
        return _of_hex(text.this)
    if isinstance(node, exp.Cast) and node.to.is_type("varbinary"):
        said = _ESCAPE.sub(lambda code: chr(int(code[1], 16)), text.this)
        return said.encode("latin-1") if text.this.isascii() else None
    return None


def _of_hex(text: str) -> bytes | None:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return None
