"""Results in a notebook: small HTML tables, with every text escaped. ``_repr_html_`` of results uses them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, Final

_MOST_ROWS: Final = 50
_LEFT: Final = ' style="text-align: left"'
_RIGHT: Final = ' style="text-align: right"'


def _format_value(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def facts(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """Returns a heading, and a table of names and values; a None value is left out."""
    lines = [
        f"<tr><th{_LEFT}>{escape(name)}</th><td{_LEFT}>{escape(_format_value(value))}</td></tr>"
        for name, value in rows
        if value is not None
    ]
    return f"<div><strong>{escape(title)}</strong><table>{''.join(lines)}</table></div>"


def grid(
    title: str,
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    notes: Iterable[str] = (),
    *,
    show: Callable[[object], str] = _format_value,
) -> str:
    """Returns a heading, a table with ``headers``, and a line for each of ``notes``. Numbers are right-aligned."""
    head = "".join(f"<th>{escape(header)}</th>" for header in headers)
    body = "".join(f"<tr>{''.join(_cell(value, show(value)) for value in row)}</tr>" for row in rows)
    below = "".join(f"<div>{escape(note)}</div>" for note in notes)
    return f"<div><strong>{escape(title)}</strong><table><tr>{head}</tr>{body}</table>{below}</div>"


def load_ipython_extension(ipython: Any) -> None:
    """``%load_ext metastore``: from now on the notebook shows Arrow tables, as ``Session.sql`` returns, as HTML."""
    ipython.display_formatter.formatters["text/html"].for_type_by_name("pyarrow.lib", "Table", rows)


def rows(table: Any) -> str:
    """Returns the first rows of an Arrow table, with the number of all. A number is as it is: it may be an id."""
    shown = table.slice(0, _MOST_ROWS)
    values = zip(*(column.to_pylist() for column in shown.columns), strict=True)
    known = ["" if len(shown) == len(table) else f"the first {len(shown):,} of {len(table):,} rows"]
    return grid(f"{len(table):,} rows", table.column_names, values, filter(None, known), show=str)


def lines(text: str) -> str:
    """Returns a text that keeps its spaces and line breaks."""
    return f"<pre>{escape(text)}</pre>"


def _cell(value: object, text: str) -> str:
    return f"<td{_RIGHT if isinstance(value, int | float) else _LEFT}>{escape(text)}</td>"
