"""Columns that a query has to name, ``$row_id`` and what the file of a row says, and how ``*`` is kept from them. Pure.

Place in the flow: SELECT asks here which of them a query means of a table. The table is given these, and each star of
the query that would show them says ``EXCLUDE``. Statistics cannot judge ``WHERE "$row_id" IN (…)``: its ids are read
here, so that the scan reads their row groups alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
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


def meant_of(query: QueryText, reference: Reference) -> frozenset[str]:
    """The columns among :data:`UNLISTED` that ``query`` means of the table at ``reference``, unless it has its own.

    A name of Drill's (``filename``) without the table's is one only where the query reads no other table beside it, and
    gives nothing else this name.
    """
    select = reference.node.find_ancestor(exp.Select)
    if select is None:
        return frozenset()
    alias = reference.node.alias_or_name.lower()
    given = {
        each.alias.lower() for each in query.tree.find_all(exp.Alias) if each.this.name.lower() != each.alias.lower()
    }
    is_alone = not select.args.get("joins")
    found = set()
    for column in query.tree.find_all(exp.Column):
        name = column.name.lower()
        if name not in UNLISTED:
            continue
        if column.table:
            is_meant = column.table.lower() == alias
        else:
            is_own = column.find_ancestor(exp.Select) is select
            is_meant = is_own and (name.startswith("$") or (is_alone and name not in given))
        if is_meant:
            found.add(name)
    return frozenset(found)


def stars_without(
    query: QueryText, hidden: Mapping[Reference, Collection[str]]
) -> Iterator[tuple[tuple[int, int], str]]:
    """What to write in place of each star of ``query``, by its place, so that it leaves the ``hidden`` columns out.

    Raises InvalidRequestError where a star cannot say so.
    """
    found: dict[int, tuple[exp.Star, list[str]]] = {}
    for reference, names in hidden.items():
        select = reference.node.find_ancestor(exp.Select)
        if not names or select is None:
            continue
        if any(join.method.upper() == "NATURAL" for join in select.args.get("joins") or ()):
            raise InvalidRequestError(f"{', '.join(names)}: join with ON or USING; NATURAL would join by it too")
        for star in select.find_all(exp.Star):
            if star.find_ancestor(exp.Select) is not select or isinstance(star.parent, exp.Count):
                continue
            of = star.parent.table if isinstance(star.parent, exp.Column) else ""
            if of and of.lower() != reference.node.alias_or_name.lower():
                continue
            if not query.text.startswith("*", star.meta.get("start", len(query.text))):
                raise InvalidRequestError(
                    f"{', '.join(names)}: say SELECT before FROM, with the columns that are wanted"
                )
            _, wanted = found.setdefault(star.meta["start"], (star, []))
            wanted += [name for name in names if name not in wanted]
    for start, (star, names) in found.items():
        left_out = ", ".join(map(double_quoted, names))
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
    """The bytes that a constant is: ``from_hex('…')``, ``unhex('…')``, a text cast to BLOB."""
    node = node.unnest()
    text = node.this
    if not isinstance(text, exp.Literal) or not text.is_string:
        return None
    if isinstance(node, exp.Unhex):
        try:
            return bytes.fromhex(text.this)
        except ValueError:
            return None
    if isinstance(node, exp.Cast) and node.to.is_type("varbinary"):
        said = _ESCAPE.sub(lambda code: chr(int(code[1], 16)), text.this)
        return said.encode("latin-1") if text.this.isascii() else None
    return None
