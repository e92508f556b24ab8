"""Results for people in a terminal: one function per kind of result, chosen by its type."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import singledispatch
from os.path import commonprefix

from rich.console import Group, RenderableType
from rich.text import Text

from metastore.analyze.result import AnalyzeResult
from metastore.cli.commands.integrity import CheckResult, RepairResult
from metastore.cli.commands.setup import EffectiveConfiguration, InitResult, Registration
from metastore.cli.commands.versions import DropResult, Expiry, PurgeResult, VersionHistory
from metastore.cli.grid import Grid
from metastore.lake.formats.names import SUFFIXES
from metastore.overview.document import document
from metastore.overview.formats import UNKNOWN, bound_text, moment, number, plural, seconds, setting_value, size, tally
from metastore.overview.results import DaemonEnd, HiveTables, Left, PruneReport, Results, Rows
from metastore.overview.tables import FileList, SegmentList, TableDescription, TableList

_MOST_ROWS = 50
"""Maximum number of lines of a list on a screen; the JSON document has all."""
_MOST_NOTES = 10
"""Maximum number of notes on columns."""
_MOST_VALUES = 500
"""Maximum number of rows of a statement."""
_NAMING = ("id", "version", "snapshot")


@singledispatch
def screen(result: object) -> RenderableType:
    """Returns the text to print for ``result``."""
    raise TypeError(f"there is no screen for {type(result).__name__}")


@screen.register
def _(result: InitResult) -> RenderableType:
    return Group(
        f"{'Created' if result.created else 'Found'} the metastore at {result.location}",
        Text("next: metastore analyze <plugin.workspace.table or path>", "dim"),
    )


@screen.register
def _(result: Registration) -> RenderableType:
    return Group(
        *(f"Registered {each.table}, version {each.version}, in {each.target}" for each in result.tables),
        Text("writers that still have the old configuration are refused: give each the new one", "dim"),
    )


@screen.register
def _(result: EffectiveConfiguration) -> RenderableType:
    table = Grid("key", "value", "set in")
    for setting in result.settings:
        value = setting_value(setting.value)
        table.add_row(setting.key, value, Text(setting.origin, "dim" if setting.origin == "default" else "green"))
    return Group(table, *(Text(f"warning: {each}", "yellow") for each in result.warnings))


@screen.register
def _(result: TableList) -> RenderableType:
    if not result.tables and result.pattern is not None:
        return Group(f"No table matches {result.pattern} in {result.metastore}.", _footer("", result.version))
    if not result.tables:
        where = f"No tables in {result.metastore}"
        return f"{where}: `metastore analyze <plugin.workspace.table or path>` adds one."
    table = Grid("table", "#rows", "level", "data modified (UTC)", "owner", "location")
    for each in result.tables:
        table.add_row(
            Text(each.table, "bold"),
            number(each.rows),
            each.level or UNKNOWN,
            moment(each.modified),
            each.owner or UNKNOWN,
            each.location or UNKNOWN,
        )
    return Group(table, _footer(plural(len(result.tables), "table"), result.version))


@screen.register
def _(result: TableDescription) -> RenderableType:
    summary = result.summary
    units = [plural(count, kind.lower().replace("_", " ")) for kind, count in result.units.items() if kind != "TABLE"]
    facts = {
        "location": summary.location or UNKNOWN,
        "rows": number(summary.rows),
        "metadata": ", ".join(units) or "of the table alone",
        "level": summary.level or UNKNOWN,
        "data modified": f"{moment(summary.modified)} UTC" if summary.modified else UNKNOWN,
    }
    if result.partition_keys:
        facts["partitioned by"] = ", ".join(result.partition_keys)
    columns = Grid("column", "type", "#nulls", ">min", ">max", "#rows", "#distinct")
    for each in result.columns:
        columns.add_row(
            each.name,
            Text(each.type, "cyan"),
            number(each.nulls),
            bound_text(each.min, exact=each.min_exact),
            bound_text(each.max, exact=each.max_exact),
            number(each.rows),
            number(each.distinct),
        )
    return Group(
        Text(summary.table, "bold"),
        *(Text.assemble((f"{label:<15}", "dim"), fact) for label, fact in facts.items()),
        columns,
        *_notes({each.name: each.cannot_prune for each in result.columns if each.cannot_prune is not None}),
        _footer(plural(len(result.columns), "column"), result.version),
    )


@screen.register
def _(result: HiveTables) -> RenderableType:
    table = Grid("table", "format", "partitioned by", "owner", "location", "note")
    for each in result.tables:
        note = "Iceberg" if each.is_iceberg else "; ".join(each.obstacles)
        table.add_row(
            Text(f"{each.database}.{each.name}", "bold"),
            each.format or UNKNOWN,
            ", ".join(each.partition_columns),
            each.owner or UNKNOWN,
            each.location or UNKNOWN,
            Text(note, "dim"),
        )
    return Group(table, Text(f"{plural(len(result.tables), 'table')} of plugin {result.plugin}", "dim"))


@screen.register
def _(result: SegmentList) -> RenderableType:
    table = Grid("segment", "#rows", "#files", "data modified (UTC)", "location")
    for each in result.segments[:_MOST_ROWS]:
        table.add_row(
            each.segment, number(each.rows), number(each.files), moment(each.modified), each.location or UNKNOWN
        )
    return _listing(table, plural(len(result.segments), "segment"), len(result.segments), result.version)


@screen.register
def _(result: FileList) -> RenderableType:
    table = Grid("file", "#rows", "#size", "#row groups", "data modified (UTC)")
    for each in result.files[:_MOST_ROWS]:
        table.add_row(each.file, number(each.rows), size(each.bytes), number(each.row_groups), moment(each.modified))
    return _listing(
        table, f"{plural(len(result.files), 'file')}, {size(result.files.bytes)}", len(result.files), result.version
    )


@screen.register
def _(result: AnalyzeResult) -> RenderableType:
    if result.status == "up to date":
        summary = f"{result.table} is up to date: {plural(result.files, 'file')}, {seconds(result.seconds)}"
        return Group(summary, *_notes({}, result.passed_over), _footer("", result.version))
    changes = ((result.new, "new"), (result.changed, "changed"), (result.removed, "removed"))
    summary = ", ".join(f"{count:,} {state}" for count, state in changes if count)
    what = f"analyzed {plural(result.files, 'file')} ({summary})" if summary else "analyzed"
    written = f"{plural(result.units, 'metadata unit')} in {plural(result.segments_written, 'segment')}"
    engine = f" by the {result.engine} engine" if result.engine else ""
    lines: list[RenderableType] = [
        Text.assemble((str(result.table), "bold"), f": {what}, {plural(result.rows, 'row')}"),
        f"{written} written in {seconds(result.seconds)}{engine}",
    ]
    if result.segments_removed:
        lines.append(f"{plural(result.segments_removed, 'segment')} removed")
    if not result.files and not result.removed:
        known = ", ".join(f".{suffix}" for suffix in sorted(SUFFIXES))
        told = f"No data file is in it; empty files have no rows. Files that end in {known} are read"
        lines.append(Text(f"{told}, and those of a format by name", "yellow"))
    lines += [] if result.reason is None else [Text(f"all files concerned: {result.reason}", "dim")]
    return Group(*lines, *_notes(result.without_bounds, result.passed_over), _footer("", result.version))


def _notes(reasons: Mapping[str, str], paths: Sequence[str] = ()) -> Sequence[RenderableType]:
    """Returns a line for each column that cannot skip files, for the first few, and one for ``paths`` without data."""
    lines = [Text(f"{name} cannot skip files: {reason}", "dim") for name, reason in reasons.items()]
    lines = lines[:_MOST_NOTES] + [Text(f"… and {len(lines) - _MOST_NOTES} more")] * (len(lines) > _MOST_NOTES)
    return lines + [Text(f"no data file at {plural(len(paths), 'named path')}, such as {path}") for path in paths[:1]]


@screen.register
def _(result: PruneReport) -> RenderableType:
    counts = Grid("", "#to read", "#of", "#skipped")
    for label, count, shown in (
        ("segments", result.segments, number),
        ("files", result.files, number),
        ("row groups", result.row_groups, number),
        ("bytes", result.bytes, size),
    ):
        if count is not None:
            skipped = f"{100 * count.skipped / count.total:.1f}%" if count.total else UNKNOWN
            counts.add_row(label, shown(count.kept), shown(count.total), skipped)
    lines: list[RenderableType] = [Text.assemble((result.table, "bold"), " where ", (result.predicate, "cyan")), counts]
    lines += [f"{plural(each.count, 'file')} skipped by {each.test}" for each in result.skipped_by]
    lines += [
        f"{plural(each.count, 'row group')} of other files skipped by {each.test}"
        for each in result.row_groups_skipped_by
    ]
    for stale, state in ((result.new, "not analyzed yet"), (result.changed, "changed since analyzed")):
        if stale:
            lines.append(Text(f"{plural(stale, 'file')} {state}: only directory names can exclude them", "yellow"))
    if result.missing:
        lines.append(Text(f"{plural(result.missing, 'analyzed file')} no longer there", "yellow"))
    lines += [Text(f"note: {note}", "yellow") for note in result.notes]
    if result.kept_files is not None:
        lines.append(_decisions(result))
    return Group(*lines)


def _decisions(result: PruneReport) -> RenderableType:
    kept, skipped = result.kept_files or (), result.skipped_files or ()
    out = [segment for segment in result.segment_decisions if not segment.kept]
    folder = _folder_of([file.path for file in kept] + [file.path for file in skipped])
    table = Grid("", "file", "#size", "row groups", "why")
    for file in kept[:_MOST_ROWS]:
        groups = "all" if file.row_groups is None else ", ".join(map(str, file.row_groups))
        table.add_row(Text("read", "green"), file.path.removeprefix(folder), size(file.bytes), groups, file.reason)
    for segment in out[:_MOST_ROWS]:
        table.add_row("skip", f"{segment.segment}/…", "", "", segment.reason, style="dim")
    for left in skipped[:_MOST_ROWS]:
        table.add_row("skip", left.path.removeprefix(folder), "", "", left.reason, style="dim")
    hidden = sum(max(0, len(each) - _MOST_ROWS) for each in (kept, out, skipped))
    return Group(f"\nbelow {folder}", table, Text(f"{hidden:,} not shown, --json has all" if hidden else "", "dim"))


def _folder_of(paths: Sequence[str]) -> str:
    """Returns the common folder of all ``paths``, with its slash."""
    prefix = commonprefix(list(paths))  # noqa: RUF071 - commonpath would fold the slashes of a URI
    return prefix.rpartition("/")[0] + "/"


@screen.register
def _(result: Rows) -> RenderableType:
    if result.columns == ("plan",):
        return Group(*(Text(line) for (line,) in result.rows))
    table, shown = Grid(), result.rows[:_MOST_VALUES]
    for position, name in enumerate(result.columns):
        is_number = all(isinstance(row[position], int | float | Decimal | None) for row in shown)
        heading = "time" if result.readable and name == "seconds" else name
        table.add(heading, whole=is_number, right=is_number)
    for row in shown:
        cells = map(_readable, result.columns, row) if result.readable else map(_value, row)
        table.add_row(*cells)
    more = len(result.rows) - _MOST_VALUES
    hidden = f"; {more:,} not shown, --json has all" if more > 0 else ""
    return Group(table, Text(plural(len(result.rows), "row") + hidden, "dim"))


@screen.register
def _(result: Results) -> RenderableType:
    return Group(*map(screen, result.results))


@screen.register
def _(_: DaemonEnd) -> RenderableType:
    return Group()  # the log says so, and standard output has nothing beside it


@screen.register
def _(result: Left) -> RenderableType:
    return Text(plural(result.statements, "statement"), "dim")


def _readable(name: str, value: object) -> Text:
    """A value for people; a column's name says what its numbers count."""
    if value is None:
        return Text(UNKNOWN, "dim")
    if isinstance(value, datetime):
        return Text(moment(value))
    if isinstance(value, bool) or not isinstance(value, int | float):
        return _value(value)
    what = name.rpartition("_")[2]
    if what == "bytes" or name.startswith("bytes_"):
        return Text(size(round(value)))
    if what == "seconds":
        return Text(seconds(value))
    return Text(str(value) if what in _NAMING else number(value) if isinstance(value, int) else f"{value:,.6g}")


def _value(value: object) -> Text:
    if value is None:
        return Text("NULL", "dim")
    plain = document(value)
    return Text(plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False))


@screen.register
def _(result: VersionHistory) -> RenderableType:
    if not result.versions:
        return "No versions yet: nothing was written."
    table = Grid("version", "time (UTC)", "operation", "#partitions added", "#removed", "#partitions")
    for each in result.versions:
        table.add_row(
            str(each.version),
            moment(each.time),
            each.operation,
            tally(each.summary.get("added-data-files", "0")),
            tally(each.summary.get("deleted-data-files", "0")),
            tally(each.summary.get("total-data-files")),
        )
    shown = len(result.versions)
    kept = plural(result.kept, "version") + " kept"
    return Group(table, Text(kept if shown == result.kept else f"{kept}, the newest {shown} shown", "dim"))


@screen.register
def _(result: DropResult) -> RenderableType:
    if not result.dropped:
        return f"There was no metadata of {result.table}."
    return Group(f"Dropped the metadata of {result.table}; its data is untouched.", _footer("", result.version))


@screen.register
def _(result: PurgeResult) -> RenderableType:
    return f"Purged: version {result.version} contains no tables. Earlier versions are readable until they expire."


@screen.register
def _(result: Expiry) -> RenderableType:
    expired = result.expired
    if not (expired.versions or expired.failed or result.refreshes):
        return f"Nothing is outdated; {plural(result.kept, 'version')} kept."
    gone, went = ("would expire", "would be deleted") if result.dry_run else ("expired", "deleted")
    table = Grid("", f"#{went}")
    for label, count in (
        ("data files", expired.data_files),
        ("manifests", expired.manifests),
        ("manifest lists", expired.manifest_lists),
        ("statistics files", expired.statistics),
        ("version files", expired.version_files),
        ("earlier rows of materialized views", result.refreshes),
    ):
        table.add_row(label, number(count))
    lines: list[RenderableType] = [
        f"{plural(len(expired.versions), 'version')} {gone}, {result.kept:,} kept.",
        table,
    ]
    lines += [Text(f"not deleted: {path} ({reason})", "yellow") for path, reason in expired.failed]
    return Group(*lines)


@screen.register
def _(result: CheckResult) -> RenderableType:
    components = Grid("component", "#versions", "#files", "#size")
    for each in result.components:
        components.add_row(each.name, number(each.versions), number(each.files), size(each.bytes))
    if not result.findings:
        return Group(components, "Everything is in order.")
    findings = Grid("severity", "subject", "what", "next step")
    for found in result.findings:
        findings.add_row(found.severity, found.subject, found.what, found.next_step)
    return Group(components, findings, _footer_of_findings(result))


def _footer_of_findings(result: CheckResult) -> Text:
    counts = [
        plural(sum(found.severity == severity for found in result.findings), severity)
        for severity in ("error", "warning", "note")
    ]
    return Text(", ".join(counts), "dim")


@screen.register
def _(result: RepairResult) -> RenderableType:
    if not result.components:
        return "Nothing needs repair."
    lines: list[RenderableType] = []
    for each in result.components:
        if each.obstacle is not None:
            lines.append(Text(f"{each.name}: cannot be repaired: {each.obstacle}", "yellow"))
            continue
        would = "would go" if result.dry_run else "went"
        lost = f", and {plural(each.lost, 'lost version')} before that" if each.lost else ""
        back = bool(each.aside or each.lost)
        lines.append(
            f"{each.name}: {would} back to version file {each.version}{lost}" if back else f"{each.name}: hint only"
        )
        moved = "would be moved aside" if result.dry_run else "moved aside"
        lines += [f"  {name} {moved}: {wrong}" for name, wrong in each.aside.items()]
        if each.hint is not None:
            lines.append(f"  version-hint.text {'would name' if result.dry_run else 'names'} {each.hint}")
    if result.moved_to is not None:
        lines.append(f"Version files {'would go' if result.dry_run else 'are'} below {result.moved_to}")
    return Group(*lines)


def _listing(table: Grid, counted: str, rows: int, version: int) -> RenderableType:
    more = f"; {rows - _MOST_ROWS:,} not shown, --json has all" if rows > _MOST_ROWS else ""
    return Group(table, _footer(counted + more, version))


def _footer(counted: str, version: int) -> Text:
    return Text(f"{counted}, version {version}" if counted else f"version {version}", "dim")
