"""Tables on screens of any width: nothing is left out, no number is cut, and texts are not folded into shreds."""

from __future__ import annotations

import datetime as dt
import io
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from metastore.cli.grid import fit_widths
from metastore.cli.screens import screen
from metastore.overview.results import Rows
from metastore.overview.tables import ColumnSummary, TableDescription, TableSummary

COLUMNS = tuple(
    ColumnSummary(name, kind, 8_255, low, high, min_exact=True, max_exact=True, rows=336_776, distinct=86_464)
    for name, kind, low, high in (
        ("dep_delay", "INT", -43, 1_301),
        ("scheduled_arrival_of_the_flight", "TIMESTAMP", "2013-01-01 05:00:00", "2013-12-31 23:00:00"),
        ("tailnum", "VARCHAR", "D942DN", "N9EAMQ"),
        ("id", "BIGINT", -123456789012345, 123456789012345),
    )
)
FLIGHTS = TableDescription(
    1, TableSummary("dfs.demo.flights", 336_776, "ROW_GROUP", None, None, "/" + "d" * 60), None, {}, {}, COLUMNS
)


def lines(result: object, width: int) -> list[str]:
    """What a terminal of that width gets."""
    shown = io.StringIO()
    Console(file=shown, width=width, soft_wrap=True, highlight=False, markup=False).print(screen(result))
    return [line.rstrip() for line in shown.getvalue().splitlines()]


@pytest.mark.parametrize("width", [20, 70, 80, 100, 500])
def test_a_description_is_whole_on_every_terminal(width: int) -> None:
    """Each number on one line, once for each column; names and types too, a long one in pieces that can be read."""
    found = lines(FLIGHTS, width)
    everything = " ".join(found)
    assert everything.count("336,776") == 1 + len(COLUMNS)
    assert everything.count("8,255") == everything.count("86,464") == len(COLUMNS)
    for word in (
        "dep_delay",
        "tailnum",
        "INT",
        "TIMESTAMP",
        "VARCHAR",
        "-43",
        "1301",
        "-123456789012345",
        "2013-01-01",
        "05:00:00",
    ):
        assert word in everything
    turned = re.sub(r"\s", "", everything)
    headings = [line for line in found if "column" in line and "distinct" in line]
    names = [line[: heading.index("type")].strip() for heading in headings for line in found[found.index(heading) :]]
    assert "scheduled_arrival_of_the_flight" in ("".join(names) if headings else turned)
    assert bool(headings) == (width >= 100)
    assert "…" not in everything


def test_lines_keep_to_a_terminal_that_has_room() -> None:
    """A table that does not fit is turned: each row becomes lines of heading and value, in the order of the columns."""
    assert max(map(len, lines(replace(FLIGHTS, columns=COLUMNS[:3]), 80))) <= 80
    many = Rows(tuple(f"heading_{n}" for n in range(20)), (tuple(f"value {n}" for n in range(20)), (None,) * 20))
    shown = lines(many, 80)
    assert max(map(len, shown)) <= 80
    assert [line.split()[0] for line in shown if line.startswith("heading")] == [f"heading_{n}" for n in range(20)] * 2
    assert [line.split(None, 1)[1] for line in shown[:20]] == [f"value {n}" for n in range(20)]


def test_columns_without_values_go_first() -> None:
    """They are named below a table that is too wide with them; a wide terminal has them in their places."""
    names = tuple(f"heading_{n}" for n in range(12))
    rows = Rows(names, tuple(tuple(None if n > 3 else n * 1000 for n in range(12)) for _ in range(2)), readable=True)
    narrow, wide = lines(rows, 80), lines(rows, 200)
    assert narrow[1].split() == list(names[:4])
    assert "".join(narrow).count("3,000") == 2
    assert max(map(len, narrow)) <= 80
    folded = " ".join(line for line in narrow if "heading_" in line and "heading_0" not in line)
    assert folded == f"without a value: {', '.join(names[4:])}"
    assert wide[1].split() == list(names)
    assert "–" in wide[3]


def test_no_rows() -> None:
    """Headings that are wider than the terminal say nothing about nothing."""
    names = tuple(f"heading_{n}" for n in range(12))
    assert lines(Rows(names, ()), 80) == ["0 rows"]
    assert lines(Rows(names, ()), 200)[1].split() == list(names)


def test_readable_values() -> None:
    """Sizes have units, times end with the second; a query's values are exact."""
    columns = ("bytes_before", "seconds", "started", "score", "metadata_bytes_score", "enabled")
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, dt.timezone.utc)
    row = (1_234_567, 0.0764357, moment, 1234, 100, True)
    shown = "\n".join(lines(Rows(columns, (row,), readable=True), 200))
    assert re.sub(r"\s{2,}", "|", shown.splitlines()[3].strip()) == "1.2 MB|76 ms|2026-01-02 03:04:05|1,234|100|true"
    assert "1234567" in "\n".join(lines(Rows(columns, (row,)), 200))


def test_numbers_that_name_something_have_no_separators() -> None:
    """They are copied into the next command; counts beside them have separators."""
    rows = Rows(("snapshot_id", "version", "files"), ((8_011_930_564_448_563_217, 1234, 1234),), readable=True)
    assert lines(rows, 200)[3].split() == ["8011930564448563217", "1234", "1,234"]


def test_numbers_of_a_query_are_not_folded() -> None:
    """Beside a text that takes all the room it can get."""
    found = lines(Rows(("n", "text"), ((12_345_678_901_234, "word " * 40), (None, None))), 40)
    assert "12345678901234" in found[3]
    assert max(map(len, found)) <= 40


def test_values_command_no_terminal() -> None:
    """Anybody may have written them: a table's columns stay beside each other, and the terminal as it was."""
    found = lines(Rows(("a\x1b[2J", "b"), (("\x1b[31mred", "x\ty"), ("\x9b1m", "two\nlines"))), 80)
    assert found[1].split() == [r"a\x1b[2J", "b"]
    assert found[3].split() == [r"\x1b[31mred", r"x\ty"]
    assert [line.split() for line in found[4:6]] == [[r"\x9b1m", "two"], ["lines"]]


@given(st.lists(st.tuples(st.integers(1, 60), st.integers(1, 60)), min_size=1, max_size=8), st.integers(-5, 300))
def test_widths_fit_or_are_the_least(columns: list[tuple[int, int]], room: int) -> None:
    """No column is wider than its values or narrower than it may be, and no room is given away."""
    natural = [max(pair) for pair in columns]
    least = [min(pair) for pair in columns]
    widths = fit_widths(natural, least, room)
    assert all(low <= width <= high for low, width, high in zip(least, widths, natural, strict=True))
    assert sum(widths) == max(sum(least), min(sum(natural), room))
