"""Tables on a screen: how wide each column is where the terminal has no room for all of them.

Place in the flow: ``screens`` fills a :class:`Grid`, Rich draws it. Promises: nothing is left out, whatever the width,
and no value commands the terminal. A number stands on one line and is never cut, since a part of a number is another
number. A text is folded into several lines, but not into shreds: its column keeps :data:`LEAST` characters, or as many
as its longest value has. Where the terminal is narrower than all that, lines run over its edge, and it breaks them
itself.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.style import StyleType
from rich.table import Column, Table
from rich.text import Text

from metastore.cli.formats import visible

LEAST: Final = 10
"""So wide is a column of texts at least, in characters: a date is not folded."""

_NUMBER: Final = re.compile(r"~?[+-]?[\d.,]+(?:[eE][+-]?\d+)?")
_NO_BOUND: Final = 1_000_000


class Grid(Table):
    """A table without rules. A heading that begins with ``#`` stands over numbers, right-aligned and never folded.

    One that begins with ``>`` stands over values of all kinds, right-aligned, of which those that are no numbers may be
    folded.
    """

    def __init__(self, *headings: str) -> None:
        super().__init__(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
        for heading in headings:
            self.add(heading.lstrip("#>"), whole=heading.startswith("#"), right=heading.startswith(("#", ">")))

    def add(self, heading: str, *, whole: bool = False, right: bool = False) -> None:
        """One more column; ``whole`` values are never folded."""
        self.add_column(visible(heading), justify="right" if right else "left", no_wrap=whole, overflow="fold")

    def add_row(
        self, *renderables: RenderableType | None, style: StyleType | None = None, end_section: bool = False
    ) -> None:
        """One more row."""
        super().add_row(*map(_shown, renderables), style=style, end_section=end_section)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Rich's drawing, in columns of the widths that are chosen here."""
        unbounded = options.update(max_width=_NO_BOUND)
        natural = [_natural(console, unbounded, column) for column in self.columns]
        least = [_least(column, width) for column, width in zip(self.columns, natural, strict=True)]
        self._take(natural)
        between = Measurement.get(console, unbounded, self).maximum - sum(natural)
        chosen = fitted(natural, least, options.max_width - between)
        self._take(chosen)
        yield from super().__rich_console__(console, options.update(max_width=sum(chosen) + between))

    def _take(self, widths: Sequence[int]) -> None:
        for column, width in zip(self.columns, widths, strict=True):
            column.width = width


def _shown(cell: RenderableType | None) -> RenderableType | None:
    if isinstance(cell, str):
        return visible(cell)
    if isinstance(cell, Text) and visible(cell.plain) != cell.plain:
        return Text(visible(cell.plain), cell.style)
    return cell


def fitted(natural: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Widths that fit into ``room``, or the least ones: the widest column gives way first, down to its ``least``."""
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
    numbers = (cell_len(str(cell)) for cell in column.cells if _NUMBER.fullmatch(str(cell)))
    return min(natural, max(LEAST, *numbers, 0))


def _natural(console: Console, options: ConsoleOptions, column: Column) -> int:
    return max(Measurement.get(console, options, cell).maximum for cell in (column.header, *column.cells))
