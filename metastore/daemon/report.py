"""A chart of tables over time: bytes of data and numbers of files, as PNG, or as a page of HTML that stands alone.

The points come from the summaries of the snapshots that are kept, and from the daemon's history, which also has totals
of snapshots that are gone. Drawn by matplotlib (extra ``report``).
"""

from __future__ import annotations

import html
import io
import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Final

from metastore.daemon.health import warn
from metastore.daemon.listing import every_table
from metastore.daemon.logs import message_of, unforeseen
from metastore.daemon.policy import TableName
from metastore.errors import InvalidRequestError, NotFoundError, StorageError
from metastore.ground.optional import library
from metastore.model.run_unit import RunUnit
from metastore.session import Session

_log: Final = logging.getLogger(__name__)

_MOST_LINES: Final = 12
"""Maximum number of tables in a chart; the largest are shown."""


@dataclass(frozen=True, order=True)
class Point:
    """The size of a table at one time."""

    time_ms: int
    files: int
    bytes: int


def draw(session: Session, file: Path, table: TableName | None = None) -> int:
    """Write the chart of ``table``, or of the largest tables; returns how many tables it shows.

    Raises InvalidRequestError for a file that is neither .png nor .html, and without matplotlib; NotFoundError when no
    table has any points; StorageError when the file cannot be written.
    """
    if file.suffix not in {".png", ".html"}:
        raise InvalidRequestError(f"{file}: a file that ends with .png or .html is expected")
    figure_module: Any = library("matplotlib.figure", "report")
    series = {name: points for name, points in _series(session, table) if points}
    if not series:
        raise NotFoundError("no table has snapshots or runs yet, so there is nothing to draw")
    largest = sorted(series, key=lambda name: -series[name][-1].bytes)[:_MOST_LINES]
    figure = figure_module.Figure(figsize=(11, 8), layout="constrained")
    _plot(figure, {name: series[name] for name in largest})
    try:
        _save(figure, file)
    except OSError as error:
        raise StorageError(f"cannot write {file}: {error}") from error
    return len(largest)


def points_of(runs: Sequence[RunUnit]) -> Iterator[Point]:
    """Returns the points of one table that its runs recorded: its size before and after each."""
    for run in runs:
        started = run.started or 0
        if run.files_before is not None and run.bytes_before is not None:
            yield Point(started, run.files_before, run.bytes_before)
        if run.files_after is not None and run.bytes_after is not None:
            yield Point(started + (run.milliseconds or 0), run.files_after, run.bytes_after)


def _series(session: Session, table: TableName | None) -> Iterator[tuple[str, list[Point]]]:
    runs: dict[str, list[RunUnit]] = {}
    for run in session.metastore.runs.since(""):
        runs.setdefault(run.table or "", []).append(run)
    for name in every_table(session.catalogs, warn) if table is None else [table]:
        try:
            points = {*_of_snapshots(session, name), *points_of(runs.get(str(name), []))}
        except Exception as error:
            if table is not None:
                raise
            _log.warning("%s is left out: %s", name, message_of(error), exc_info=unforeseen(error))
            continue
        yield str(name), sorted(points)


def _of_snapshots(session: Session, name: TableName) -> Iterator[Point]:
    for snapshot in session.catalogs.load(name.catalog, name.schema, name.name).metadata.snapshots:
        summary = snapshot.summary.additional_properties if snapshot.summary else {}
        files, size = summary.get("total-data-files", ""), summary.get("total-files-size", "")
        if files.isdecimal() and size.isdecimal():
            yield Point(snapshot.timestamp_ms, int(files), int(size))


def _plot(figure: Any, series: Mapping[str, Sequence[Point]]) -> None:
    sizes, counts = figure.subplots(2, 1, sharex=True)
    for name, points in series.items():
        times = [datetime.fromtimestamp(point.time_ms / 1000, tz=timezone.utc) for point in points]
        # A label that begins with an underscore would be left out of the legend.
        style = {"drawstyle": "steps-post", "marker": ".", "label": f" {name}"}
        sizes.plot(times, [point.bytes / 1e6 for point in points], **style)
        counts.plot(times, [point.files for point in points], **style)
    for axes, title in ((sizes, "data, MB"), (counts, "data files")):
        axes.set_title(title, loc="left")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    sizes.legend(loc="best", fontsize="small")
    figure.autofmt_xdate()


def _save(figure: Any, file: Path) -> None:
    if file.suffix == ".png":
        figure.savefig(file, format="png", dpi=120)
        return
    drawn = io.StringIO()
    figure.savefig(drawn, format="svg")
    picture = drawn.getvalue()
    title = html.escape("Tables over time")
    page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><h1>{title}</h1>'
    file.write_text(page + picture[picture.index("<svg") :] + "</html>\n", encoding="utf-8")
