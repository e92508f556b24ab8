"""Results in a notebook: small HTML tables, with every text escaped. ``_repr_html_`` of results uses them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

_LEFT: Final = ' style="text-align: left"'
_RIGHT: Final = ' style="text-align: right"'


def facts(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """Returns a heading, and a table of names and values; a None value is left out."""
    lines = [
        f"<tr><th{_LEFT}>{escape(name)}</th><td{_LEFT}>{escape(_shown(value))}</td></tr>"
        for name, value in rows
        if value is not None
    ]
    return f"<div><strong>{escape(title)}</strong><table>{''.join(lines)}</table></div>"


def grid(title: str, headers: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[str] = ()) -> str:
    """Returns a heading, a table with ``headers``, and a line for each of ``notes``. Numbers are right-aligned."""
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    below = "".join(f"<div>{escape(note)}</div>" for note in notes)
    return f"<div><strong>{escape(title)}</strong><table><tr>{head}</tr>{body}</table>{below}</div>"


def lines(text: str) -> str:
    """Returns a text that keeps its spaces and line breaks."""
    return f"<pre>{escape(text)}</pre>"


def _cell(value: object) -> str:
    side = _RIGHT if isinstance(value, int | float) else _LEFT
    return f"<td{side}>{escape(_shown(value))}</td>"


def _shown(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)
