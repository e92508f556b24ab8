"""Lists in an ALTER TABLE of several actions, where a comma ends a list or separates its items."""

from __future__ import annotations

from typing import Final

from sqlglot import TokenType

from metastore.sql.statement import Cursor

ACTIONS: Final = ("ADD", "DROP", "REPLACE", "RENAME", "ALTER", "CHANGE", "SET", "UNSET", "WRITE")
"""First words of the actions."""

_OF_AN_ORDER: Final = ("ASC", "DESC", "NULLS")


def next_item(cursor: Cursor) -> bool:
    """Read the comma before another item of a list; False at the list's end and before the next action.

    An action is its first word and another word. A column or key may have the name of an action: it is then followed by
    a sign, by the direction of an order, or by nothing.
    """
    if not cursor.ahead(TokenType.COMMA):
        return False
    following = cursor.word_ahead(2)
    named = cursor.ahead(TokenType.IDENTIFIER, 2) or (following and following not in _OF_AN_ORDER)
    if cursor.word_ahead(1) in ACTIONS and named:
        return False
    return cursor.accept(TokenType.COMMA)
