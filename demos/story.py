"""The output of the demo: numbered chapters, the current call, its result, and checked claims."""

from __future__ import annotations

import sys
from collections.abc import Callable
from time import perf_counter
from typing import Final, TypeVar

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.rule import Rule
from rich.syntax import Syntax
from rich.text import Text

from metastore.errors import MetastoreError
from metastore.overview.formats import seconds

T = TypeVar("T")

_WIDTH: Final = 110


class ClaimError(AssertionError):
    """A claim of the demo is false."""


def exit_code(play: Callable[[], None]) -> int:
    """Play a demo; returns 0 if every claim held, 1 after an error, which is printed, and 130 after Ctrl-C."""
    try:
        play()
    except ClaimError as error:
        print(f"error: not true: {error}", file=sys.stderr)
        return 1
    except (MetastoreError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


class Story:
    """Writes to ``console``; counts its chapters and the claims that held."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or _console()
        self._began = perf_counter()
        self._chapters = 0
        self.claims = 0

    @property
    def result(self) -> str:
        """How many claims held, in which time."""
        return f"{self.claims} claims checked, all true, in {seconds(perf_counter() - self._began)}."

    def chapter(self, title: str) -> None:
        """Begin a numbered chapter."""
        self._chapters += 1
        self._console.print()
        self._console.print(Rule(Text(f"{self._chapters}  {title}", "bold cyan"), align="left", style="cyan"))

    def say(self, text: str) -> None:
        """Print a paragraph."""
        self._console.print(text, markup=True)

    def code(self, text: str, language: str = "python") -> None:
        """Print code that a reader would type; long lines are wrapped, never cut."""
        code = Syntax(text, language, background_color="default", word_wrap=True)
        self._console.print(Padding(code, (1, 0, 1, 2)))

    def show(self, result: RenderableType) -> None:
        """Print a result, indented."""
        self._console.print(Padding(result, (0, 0, 0, 2)))

    def claim(self, statement: str, holds: bool) -> None:
        """State a measurement of this run. Raises ClaimError if it does not hold."""
        self._console.print(Text("  ✓ " if holds else "  ✗ ", "bold green" if holds else "bold red") + Text(statement))
        if not holds:
            raise ClaimError(statement)
        self.claims += 1

    def while_waiting(self, label: str, work: Callable[[], T]) -> tuple[T, float]:
        """Do ``work``; return its result and its time in seconds."""
        began = perf_counter()
        with self._console.status(label):
            result = work()
        return result, perf_counter() - began


def _console() -> Console:
    console = Console(highlight=False, markup=False)
    if not console.is_terminal or console.width > _WIDTH:
        console.width = _WIDTH
    return console
