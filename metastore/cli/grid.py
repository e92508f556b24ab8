"""Tables on a screen: chooses the width of each column if the terminal is too narrow for all.

Place in the flow: ``screens`` fills a :class:`Grid`, Rich draws it. Promises: no value is left out at any width, and
none can control the terminal. A number stays on one line and is never cut, since a part of a number is another number.
A text is folded into several lines, and its column keeps :data:`LEAST` characters, or the length of its longest value
if that is less. If the terminal is still too narrow, columns without any value are named below the table instead. If
that does not help, the table is turned: each row becomes lines of heading and value. A table without rows has headings
only if they fit.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.style import StyleType
from rich.table import Column, Table
from rich.text import Text

from metastore.overview.formats import UNKNOWN, visible

LEAST: Final = 10
"""Minimum width of a column of texts, in characters. A date fits, so it is never folded."""

_NUMBER: Final = re.compile(r"~?[+-]?[\d.,]+(?:[eE][+-]?\d+)?")
_NO_BOUND: Final = 1_000_000


class Grid(Table):
    """A table without lines. A heading that begins with ``#`` marks a column of numbers: right-aligned, never folded.

    A heading that begins with ``>`` marks a right-aligned column of any values; only its numbers are never folded.
    """

    def __init__(self, *headings: str) -> None:
        super().__init__(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for heading in headings:
            self.add(heading.lstrip("#>"), whole=heading.startswith("#"), right=heading.startswith(("#", ">")))

    def add(self, heading: str, *, whole: bool = False, right: bool = False) -> None:
        """Add a column; ``whole`` values are never folded."""
        self.add_column(visible(heading), justify="right" if right else "left", no_wrap=whole, overflow="fold")

    def add_row(
        self, *renderables: RenderableType | None, style: StyleType | None = None, end_section: bool = False
    ) -> None:
        """Add a row."""
        super().add_row(*map(_visible_cell, renderables), style=style, end_section=end_section)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the table with Rich, in the chosen widths."""
        room = self._widths(console, options)
        if room is None and (empty := [column for column in self.columns if self.row_count and not _has_value(column)]):
            self.columns = [column for column in self.columns if column not in empty]
            yield from self.__rich_console__(console, options)
            told = Text(f"without a value: {', '.join(str(column.header) for column in empty)}", "dim")
            yield Text("\n").join(told.wrap(console, options.max_width))
        elif room is not None:
            yield from super().__rich_console__(console, options.update(max_width=room))
        elif self.row_count:
            yield from self._stack_rows()

    def _widths(self, console: Console, options: ConsoleOptions) -> int | None:
        """Gives each column its width, and returns that of the table; None if it is too wide."""
        unbounded = options.update(max_width=_NO_BOUND)
        natural = [_natural(console, unbounded, column) for column in self.columns]
        least = [_least(column, width) for column, width in zip(self.columns, natural, strict=True)]
        self._take(natural)
        between = Measurement.get(console, unbounded, self).maximum - sum(natural)
        chosen = fit_widths(natural, least, options.max_width - between)
        self._take(chosen)
        total = sum(chosen) + between
        return total if total <= options.max_width else None

    def _stack_rows(self) -> Iterator[RenderableType]:
        """Yields the rows one below the other, each as lines of heading and value, with an empty line between rows."""
        for row in zip(*(column.cells for column in self.columns), strict=True):
            lines = Table.grid(padding=(0, 2))
            lines.add_column(style="bold", no_wrap=True)
            lines.add_column(overflow="fold", min_width=max(map(_least_of, row)))
            for column, cell in zip(self.columns, row, strict=True):
                lines.add_row(column.header, cell)
            yield lines
            yield Text()

    def _take(self, widths: Sequence[int]) -> None:
        for column, width in zip(self.columns, widths, strict=True):
            column.width = width


def _has_value(column: Column) -> bool:
    return any(str(cell) not in ("", UNKNOWN) for cell in column.cells)


def _visible_cell(cell: RenderableType | None) -> RenderableType | None:
    if isinstance(cell, str):
        return visible(cell)
    if isinstance(cell, Text) and visible(cell.plain) != cell.plain:
        return Text(visible(cell.plain), cell.style)
    return cell


def fit_widths(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Returns widths that fit into ``room``, or the minimum ones. The widest shrinks first, down to its ``least``."""
    widths = list(natural)
    while sum(widths) > room:
        gives = [each for each in range(len(widths)) if widths[each] > least[each]]
        if not gives:
            break
        widths[max(gives, key=lambda each: widths[each])] -= 1
    return widths


def _least(column: Column, natural: int) -> int:
    if column.no_wrap:
        return natural
    return min(natural, max(LEAST, *map(_least_of, column.cells), 0))


def _least_of(cell: RenderableType) -> int:
    """The width that a number needs; 0 for anything else."""
    return cell_len(str(cell)) if _NUMBER.fullmatch(str(cell)) else 0


def _natural(console: Console, options: ConsoleOptions, column: Column) -> int:
    return max(Measurement.get(console, options, cell).maximum for cell in (column.header, *column.cells))
