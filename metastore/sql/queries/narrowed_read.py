"""Which part of a table a query reads, and why not less: the lines that EXPLAIN prints for a table.

The lines count the files and row groups that the condition leaves. They name each part of the condition that excluded
files, and each part that could not, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from pyiceberg.expressions import AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import bind, extract_field_ids
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from metastore.lake.iceberg.columns.carried_columns import for_conditions
from metastore.lake.iceberg.rows.scan_tasks import scan_tasks
from metastore.model.mapping.filters import conjuncts
from metastore.predicates.iceberg_filter import SESSION_ZONE, IcebergFilter, iceberg_filter
from metastore.predicates.predicate import parse
from metastore.scan.explanation import format_count, format_lines
from metastore.scan.pruning.result import Count
from metastore.scan.scan import Scan
from metastore.sql.queries.columns_of_files import may_have_rows, of_table
from metastore.sql.queries.push_down import AskedRows, condition_text


@dataclass(frozen=True)
class NarrowedRead:
    """``condition`` holds for every row that is read; ``lines`` say which files are read, and why."""

    condition: BooleanExpression
    lines: Sequence[str] = ()


def fitting(request: AskedRows, schema: Schema) -> IcebergFilter:
    """Returns the part of ``request`` that can choose rows with the columns of ``schema``."""
    if request.condition is None:
        return IcebergFilter(AlwaysTrue())
    return iceberg_filter(request.condition, for_conditions(schema))


def narrowed_by(request: AskedRows, chosen: IcebergFilter) -> NarrowedRead:
    """Returns the lines for a source that only the filter narrows."""
    return NarrowedRead(chosen.expression, _notes(request, chosen.notes))


def in_memory(request: AskedRows) -> NarrowedRead:
    """Returns the lines for rows that are not read from files."""
    lines = [] if request.condition is None else ["note: all rows are in memory, and DuckDB filters them"]
    return NarrowedRead(AlwaysTrue(), lines)


def of_changelog(request: AskedRows, snapshots: int) -> NarrowedRead:
    """Returns the lines for the changes of some snapshots, which are all read."""
    return NarrowedRead(
        AlwaysTrue(), [f"snapshots: {snapshots}, and DuckDB filters their changed rows", *_notes(request, ())]
    )


def of_iceberg(request: AskedRows, chosen: IcebergFilter, table: Table, extra: Sequence[str] = ()) -> NarrowedRead:
    """Returns the lines for an Iceberg table, by its manifests and the columns ``extra`` of its files."""
    is_meant, condition = may_have_rows(chosen.expression, table.metadata, extra), chosen.expression
    chosen = replace(chosen, expression=of_table(condition, extra))
    files = {task.file.file_path: task.file for task in scan_tasks(table.metadata, table.io)}
    every = list(files)
    if isinstance(condition, AlwaysTrue):
        return NarrowedRead(
            condition, [f"files: {format_count(Count(len(every), len(every)))}", *_notes(request, chosen.notes)]
        )
    tasks = scan_tasks(table.metadata, table.io, chosen.expression)
    kept = {task.file.file_path for task in tasks if is_meant(task.file)}
    by = {
        condition_text(part): len(every) - len(scan_tasks(table.metadata, table.io, part))
        for part in conjuncts(chosen.expression)
    }
    by["columns of the file"] = len(every) - sum(map(is_meant, files.values()))
    excluding = [f"{number} files: {text}" for text, number in by.items() if number]
    lines = [f"files: {format_count(Count(len(every), len(kept)))}"]
    if excluding:
        lines += ["skipped by:", *format_lines(excluding)]
    lines.append("row groups: those of the files read are chosen by their own statistics when they are opened")
    notes = [*chosen.notes, *_without_bounds(chosen.expression, table, files.values())]
    return NarrowedRead(condition, [*lines, *_notes(request, notes, nothing=len(kept) == len(every) > 0)])


def _without_bounds(condition: BooleanExpression, table: Table, files: Iterable[DataFile]) -> Iterator[str]:
    """Returns notes on columns of the condition for which no manifest entry has bounds."""
    schema = table.schema()
    bounded = {field for file in files for field in (*(file.lower_bounds or {}), *(file.upper_bounds or {}))}
    counted_alone = extract_field_ids(bind(schema, condition, case_sensitive=True)) - bounded
    for field in sorted(counted_alone):
        name = schema.find_column_name(field)
        yield f"the manifests have no bounds of {name}, so that it skips no file; row groups have them in the files"


def of_scan(request: AskedRows, scan: Scan) -> NarrowedRead:
    """Returns the lines for an analyzed table, by the metastore."""
    explanation = scan.explain()
    condition: BooleanExpression = AlwaysTrue()
    if request.condition is not None:
        condition = parse(request.condition, scan.plan.columns, SESSION_ZONE).condition
    lines = [f"files: {format_count(explanation.files)}", f"row groups: {format_count(explanation.row_groups)}"]
    if explanation.skipped_by:
        lines.append("skipped by:")
        lines += format_lines([f"{number} files: {test}" for test, number in explanation.skipped_by.items()])
    return NarrowedRead(condition, [*lines, *_notes(request, explanation.notes if request.condition else ())])


def _notes(request: AskedRows, notes: Sequence[str], *, nothing: bool = False) -> list[str]:
    lines = [f"note: {note}" for note in notes]
    if request.why_all:
        lines.append(f"note: the WHERE does not narrow what is read: {request.why_all}")
    if nothing and not lines:
        lines.append("note: no file is skipped: by its bounds each may hold rows that match")
    return lines
