"""What a run found: as JSON, as tables on the terminal, and as the tables of the README."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from benchmarks.measuring import OURS, Series, Verdict

_LIBRARIES: Final = ("pyarrow", "pyiceberg", "pyspark")
_BEGIN: Final = "<!-- results: written by `python -m benchmarks --write-readme`, not by hand -->"
_END: Final = "<!-- end of results -->"
_HEADERS: Final = ("size", "who", "median", "lowest", "cpu", "rounds", "per second", "times metastore")


@dataclass(frozen=True)
class Results:
    """All series of a run, what was expected of them, and facts of machine and run that explain them."""

    facts: dict[str, Any]
    series: Sequence[Series]
    verdicts: Sequence[Verdict]

    def to_json(self) -> str:
        """All of it, raw times included."""
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> Results:
        """What :meth:`to_json` wrote."""
        found = json.loads(text)
        return cls(
            found["facts"],
            [Series(**one) for one in found["series"]],
            [Verdict(**one) for one in found["verdicts"]],
        )


def machine_facts() -> dict[str, Any]:
    """What the times depend on. No names of hosts or users, and no paths."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_gib": round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "load_at_start": round(os.getloadavg()[0], 2),
        **{name: version(name) for name in _LIBRARIES},
    }


def show(results: Results, console: Console) -> None:
    """Print the facts, a table for each question, and what was expected."""
    console.print(_facts_line(results.facts), style="dim")
    for title, series in _by_case(results.series):
        table = Table(title=title, title_justify="left", title_style="bold")
        for header in _headers(series):
            table.add_column(header, justify="left" if header == "who" else "right")
        for row in _rows(series):
            table.add_row(*row, style="bold" if row[1].startswith(OURS) else None)
        console.print(table)
    if results.verdicts:
        table = Table("expected", "measured", "", title="expectations", title_justify="left", title_style="bold")
        for verdict in results.verdicts:
            table.add_row(f"{verdict.question}: {verdict.says}", *_outcome(verdict))
        console.print(table)


def write_readme(runs: Sequence[Results], path: str) -> None:
    """Put the results between the marks of the README at ``path``. Raises ValueError when it has no marks.

    Each run stands under facts of its own: what was measured at different times is not compared.
    """
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if _BEGIN not in text or _END not in text:
        raise ValueError(f"{path} has no place for results: it needs the lines {_BEGIN!r} and {_END!r}")
    before, after = text[: text.index(_BEGIN)], text[text.index(_END) :]
    found = "\n".join(map(_markdown, runs))
    with open(path, "w", encoding="utf-8") as file:
        file.write(f"{before}{_BEGIN}\n\n{found}\n{after}")


def _markdown(results: Results) -> str:
    parts = [f"_{_facts_line(results.facts)}_\n"]
    for title, series in _by_case(results.series):
        parts.append(f"### {title}\n\n{_markdown_table(_headers(series), _rows(series))}")
    rows = [(f"{verdict.question}: {verdict.says}", *_outcome(verdict)) for verdict in results.verdicts]
    parts.append(f"### Expectations\n\n{_markdown_table(('expected', 'measured', ''), rows)}")
    return "\n".join(parts)


def _markdown_table(headers: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headers, ["---"] * len(headers), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _facts_line(facts: dict[str, Any]) -> str:
    return ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in facts.items())


def _by_case(series: Sequence[Series]) -> Iterator[tuple[str, list[Series]]]:
    """The series of each case under its title, in the order of first appearance, sizes ascending."""
    cases: dict[str, list[Series]] = {}
    for one in series:
        cases.setdefault(f"{one.question}: {one.case}", []).append(one)
    for title, found in cases.items():
        yield title, sorted(found, key=lambda one: one.size)


def _figures(series: Sequence[Series]) -> list[str]:
    """The names of all figures of ``series``, in the order of first appearance."""
    return list(dict.fromkeys(name for one in series for name in one.figures))


def _headers(series: Sequence[Series]) -> tuple[str, ...]:
    return (*_HEADERS, *_figures(series))


def _rows(series: Sequence[Series]) -> list[tuple[str, ...]]:
    own = {one.size: one.median for one in series if one.contender == OURS}
    figures = _figures(series)
    rows: list[tuple[str, ...]] = []
    last: int | None = None
    for one in series:
        rows.append(
            (
                f"{one.size:,}" if one.size != last else "",
                one.contender,
                _seconds(one.median),
                _seconds(min(one.seconds)),
                _seconds(one.median_cpu),
                str(len(one.seconds)),
                f"{one.items / one.median:,.0f}" if one.items else "",
                f"{one.median / own[one.size]:.3g}" if one.size in own and one.contender != OURS else "",
                *(_figure(one.figures.get(name)) for name in figures),
            )
        )
        last = one.size
    return rows


def _outcome(verdict: Verdict) -> tuple[str, str]:
    if verdict.measured is None:
        return "", "not measured"
    came = {True: "met", False: "missed", None: "nothing expected"}
    return f"{verdict.measured:.3g}×", came[verdict.holds]


def _figure(value: float | None) -> str:
    """Whole numbers above 100, two digits after the point below, where they are not zero."""
    if value is None:
        return ""
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:.2f}"


def _seconds(seconds: float) -> str:
    if seconds >= 1:
        return f"{seconds:.2f} s"
    return f"{seconds * 1_000:.1f} ms"
