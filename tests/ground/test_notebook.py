"""Arrow tables in a notebook: every text escaped, numbers readable, the first rows of a long table."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree as ET

import pyarrow as pa

import metastore


def renderer() -> Callable[[pa.Table], str]:
    """What the extension gives to a notebook for Arrow's tables."""
    given: dict[tuple[str, str], Callable[[pa.Table], str]] = {}
    html = SimpleNamespace(for_type_by_name=lambda module, name, made: given.update({(module, name): made}))
    ipython: Any = SimpleNamespace(display_formatter=SimpleNamespace(formatters={"text/html": html}))
    metastore.load_ipython_extension(ipython)
    return given[pa.Table.__module__, pa.Table.__name__]


def test_a_table() -> None:
    """Headings and cells in order; a name or a value is text, whatever it looks like; a number has no separators."""
    shown = renderer()(pa.table({"<b>": ["<script>", None], "n": [1234567, 2]}))
    document = ET.fromstring(shown)  # noqa: S314 - made here
    assert [each.text for each in document.iter("th")] == ["<b>", "n"]
    assert [each.text for each in document.iter("td")] == ["<script>", "1234567", "None", "2"]


def test_a_long_table() -> None:
    """The first 50 rows, and how many there are."""
    shown = renderer()(pa.table({"n": range(51)}))
    assert shown.count("<tr>") == 51
    assert "the first 50 of 51 rows" in shown
