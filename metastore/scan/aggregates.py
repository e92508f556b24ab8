"""Aggregates count, min and max: from exact statistics where possible, otherwise from the data.

A file is answered from its statistics under three conditions: it has not changed since ANALYZE, every row satisfies the
question, and its statistics are exact for all aggregates. The listing shows the first. Pruning shows the second: no row
satisfies the negated question, and no column that the question compares has a null, so the question is neither FALSE
nor NULL for any row. All other files are read; row groups that cannot match are skipped as usual.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression, Not
from sqlglot import exp

from metastore.errors import InvalidRequestError, NotFoundError, StorageError
from metastore.model.column_path import ColumnPath, parse, quote
from metastore.model.drill_types import FLOAT_TYPES
from metastore.model.statistics import ColumnStatistics, parse_many
from metastore.model.statistics_json import read_row_count
from metastore.model.tuple_schema import TupleSchema
from metastore.model.vocabulary import IDENTIFIER_SEPARATOR
from metastore.predicates.columns import Columns
from metastore.predicates.predicate import Question
from metastore.predicates.predicate import parse as parse_predicate
from metastore.predicates.spark_sql import condition_of
from metastore.scan.plan import ScanFile, ScanPlan
from metastore.scan.pruning.prune import prune
from metastore.scan.pruning.row_id import ROW_ID

_CALL: Final = re.compile(r"\s*(count|min|max)\s*\(\s*(.+?)\s*\)\s*", re.IGNORECASE | re.DOTALL)


@dataclass(frozen=True)
class Aggregate:
    """``function`` (count, min, max) over the column at ``path``; an empty ``path`` counts rows."""

    text: str
    function: str
    path: ColumnPath

    @classmethod
    def parse(cls, text: str, columns: Columns) -> Aggregate:
        """Read ``count(*)``, ``count(x)``, ``min(x)`` or ``max(x)``. InvalidRequestError for anything else."""
        call = _CALL.fullmatch(text)
        if call is None:
            raise InvalidRequestError(f"{text!r} is not supported; use count(*), count(x), min(x) or max(x)")
        function, inside = call.group(1).lower(), call.group(2)
        if inside == "*":
            if function != "count":
                raise InvalidRequestError(f"{text!r}: only count takes *")
            return cls(text, function, ())
        return cls(text, function, columns.resolve(parse(inside), f" of {text!r}").path)


Values = list[Any]
"""One Arrow scalar for each aggregate; min and max of no values are null."""


Read = Callable[[Sequence[ScanFile], Sequence[str]], Iterable[pa.RecordBatch]]
"""Reads the rows of files that satisfy the question, in the named columns."""


def aggregate(plan: ScanPlan, aggregates: Sequence[Aggregate], zone: tzinfo, read: Read) -> pa.Table:
    """Return one row with the values of ``aggregates`` over the rows of ``plan``; expressions name the columns.

    Raises InvalidRequestError for min or max of a type without order, and the errors of ``read``.
    """
    types = [_type(one, plan.readable) for one in aggregates]
    known = _from_statistics(plan, aggregates, types, zone)
    parts = list(known.values())
    rest = [file for file in plan.files if file.path not in known]
    if rest:
        names = list(dict.fromkeys(one.path[0] for one in aggregates if one.path)) or _cheapest(plan)
        parts += [
            [_aggregate_batch(one, type_, batch) for one, type_ in zip(aggregates, types, strict=True)]
            for batch in read(rest, names)
        ]
    values = [
        _together(one, type_, [part[position] for part in parts])
        for position, (one, type_) in enumerate(zip(aggregates, types, strict=True))
    ]
    return pa.Table.from_arrays([_column([value], value.type) for value in values], [one.text for one in aggregates])


def _from_statistics(
    plan: ScanPlan, aggregates: Sequence[Aggregate], types: Sequence[pa.DataType], zone: tzinfo
) -> dict[str, Values]:
    """Return, by path, the values of each file that statistics answer."""
    try:
        covered = _covered_files(plan, zone)
        if not covered:
            return {}
        names = _columns_compared(plan, zone)
        excluded = (one.identifier for one in plan.pruned.segments if not one.may_match)
        without = frozenset(name for name in excluded if IDENTIFIER_SEPARATOR not in name)
        found: dict[str, Values] = {}
        for portion in plan.units.lower(without):
            for units in portion.files():
                found.update(_values(units, covered, names, aggregates, types))
    except (NotFoundError, StorageError):
        # The planned version has expired since; the data still exists and gives the same answer.
        return {}
    return found


def _columns_compared(plan: ScanPlan, zone: tzinfo) -> set[str]:
    """Return the columns (quoted paths) that the question and its negation compare: a null in one may make it NULL."""
    asked = plan.question
    questions = [one for one in (asked, asked if asked is None else _negate(asked)) if one is not None]
    return {name for one in questions for name in parse_predicate(one, plan.columns, str(zone)).columns}


def _values(
    units: pa.Table,
    covered: Mapping[str, ScanFile],
    names: Iterable[str],
    aggregates: Sequence[Aggregate],
    types: Sequence[pa.DataType],
) -> dict[str, Values]:
    """Return the values of ``covered`` files among ``units`` that have no null in the columns ``names`` (quoted)."""
    paths: list[Any] = units["path"].to_pylist()
    chosen = [position for position, path in enumerate(paths) if path in covered]
    if not chosen:
        return {}
    if len(chosen) < len(paths):
        units = units.take(pa.array(chosen, pa.int64()))
    files = [covered[paths[position]] for position in chosen]
    doubtful = _with_nulls(units, files, names)
    columns = {
        one.path: parse_many(pc.map_lookup(units["columnsStatistics"], pa.scalar(quote(one.path)), "first").to_pylist())
        for one in aggregates
        if one.path
    }
    found: dict[str, Values] = {}
    rows_of: list[list[Any]] = [units[name].to_pylist() for name in ("schema", "metadataStatistics")]
    for position, (file, schema, holders) in enumerate(zip(files, *rows_of, strict=True)):
        if file.path in doubtful:
            continue
        # The row count of a file with deleted rows (delete files) is marked as not exact.
        rows = read_row_count(holders)
        values = []
        for one, type_ in zip(aggregates, types, strict=True):
            known = _statistics(one, file, schema, rows, columns.get(one.path, ()), position)
            value = None if known is None else _value(one, type_, known)
            if value is None:
                break
            values.append(value)
        else:
            found[file.path] = values
    return found


def _covered_files(plan: ScanPlan, zone: tzinfo) -> dict[str, ScanFile]:
    """Return, by path, unchanged files where no row fails the question; it may be NULL where a column is null."""
    # Statistics of a file say nothing about only some of its row groups.
    whole = {
        file.path: file
        for file in plan.files
        if file.schema is not None and not file.matched and file.row_groups is None
    }
    where = plan.question
    if where is None or not whole:
        return whole
    negated = _negate(where)
    if negated is None or plan.pseudo:
        return {}
    # No listing: existing files were listed already, and only unchanged ones are considered.
    for path in prune(negated, plan.units, time_zone=str(zone)).paths:
        whole.pop(path, None)
    return whole


def _negate(where: Question) -> Question | None:
    """Return the negated question; None where it may be NULL although no column is null."""
    if isinstance(where, BooleanExpression):
        return Not(where)
    if not isinstance(where, str):
        return None
    tree = condition_of(where)
    if any(not isinstance(null.parent, exp.Is) for null in tree.find_all(exp.Null)):
        return None
    return type(where)(f"NOT ({where}\n)")


def _with_nulls(units: pa.Table, files: Sequence[ScanFile], names: Iterable[str]) -> set[str]:
    """Return the paths of ``files`` (``units`` are theirs) that may have a null in a column of ``names`` (quoted)."""
    found: set[str] = set()
    for name in names:
        texts = pc.map_lookup(units["columnsStatistics"], pa.scalar(name), "first").to_pylist()
        top = parse(name)[0]
        for file, known in zip(files, parse_many(texts), strict=True):
            if top in file.constants:
                if file.constants[top] is None:
                    found.add(file.path)
            elif known is None or known.nulls != 0:
                found.add(file.path)
    return found


def _statistics(
    one: Aggregate,
    file: ScanFile,
    schema: str | None,
    rows: int | None,
    column: Sequence[ColumnStatistics | None],
    position: int,
) -> ColumnStatistics | None:
    """Return the statistics of the aggregate's column in one file, or None."""
    if rows is None:
        return None
    if not one.path:
        return ColumnStatistics("", rows=rows, non_nulls=rows)
    if one.path[0] in file.constants:
        value = file.constants[one.path[0]]
        return ColumnStatistics("", value, value, non_nulls=0 if value is None else rows, rows=rows, nans=0)
    if column[position] is None and schema is not None and one.path[0] not in TupleSchema.from_json(schema).by_name:
        return ColumnStatistics("", non_nulls=0, rows=rows)
    return column[position]


def _value(one: Aggregate, type_: pa.DataType, statistics: ColumnStatistics) -> Any:
    """Return the aggregate's value if it is certain, else None."""
    if one.function == "count":
        count = statistics.non_nulls
        if count is None and statistics.nulls is not None and statistics.rows is not None:
            count = statistics.rows - statistics.nulls
        return None if count is None else pa.scalar(count, pa.int64())
    if statistics.all_null:
        return pa.scalar(None, type_)
    smallest = one.function == "min"
    value, exact = (statistics.min, statistics.min_exact) if smallest else (statistics.max, statistics.max_exact)
    if value is None or not exact:
        return None
    if statistics.type in FLOAT_TYPES:
        if not smallest and statistics.nans != 0:  # a NaN would be the largest
            return None
        value = value + 0.0 if isinstance(value, float) else value  # in statistics, -0.0 stands for the smaller zero
    try:
        return pa.scalar(value, type_)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None


def _aggregate_batch(one: Aggregate, type_: pa.DataType, batch: pa.RecordBatch) -> Any:
    if not one.path:
        return pa.scalar(batch.num_rows, pa.int64())
    column = batch[one.path[0]]
    if len(one.path) > 1:
        column = pc.struct_field(column, list(one.path[1:]))
    if one.function == "count":
        return pa.scalar(len(column) - column.null_count, pa.int64())
    return _extreme(one, type_, column)


def _extreme(one: Aggregate, type_: pa.DataType, values: Any) -> Any:
    """Return the smallest or largest of ``values``, with NaN above all numbers; null if there are none."""
    side = one.function
    if not pa.types.is_floating(type_):
        return pc.min_max(values)[side]
    nan = pc.is_nan(values)
    numbers = values.filter(pc.invert(nan)).drop_null()
    if len(numbers) and (side == "min" or not pc.any(nan).as_py()):
        return pc.min_max(numbers)[side]
    return pa.scalar(float("nan") if pc.any(nan).as_py() else None, type_)


def _together(one: Aggregate, type_: pa.DataType, values: Values) -> Any:
    if one.function == "count":
        return pa.scalar(sum(value.as_py() for value in values), pa.int64())
    if not values:
        return pa.scalar(None, type_)
    return _extreme(one, type_, _column(values, type_))


def _column(values: Values, type_: pa.DataType) -> Any:
    pieces: Any = [pa.repeat(value, 1) for value in values]
    return pa.chunked_array(pieces, type_)  # type: ignore[call-overload] # the stubs know few of its types


def _type(one: Aggregate, schema: pa.Schema) -> Any:
    """Return the type of the aggregate's value. InvalidRequestError for min or max of a type without order."""
    if one.function == "count":
        return pa.int64()
    type_: Any = schema.field(one.path[0]).type
    for name in one.path[1:]:
        type_ = type_.field(name).type
    if pa.types.is_nested(type_):
        raise InvalidRequestError(f"{one.text}: a column of type {type_} has no smallest or largest value")
    return type_


def _cheapest(plan: ScanPlan) -> list[str]:
    """Return the column that is cheapest to count rows by; an empty list for a table without columns."""

    def cost(column: pa.Field[Any]) -> tuple[bool, int]:
        fixed: Mapping[str, int] = {"bool": 1, "int8": 8, "int16": 16, "int32": 32, "date32[day]": 32}
        return pa.types.is_nested(column.type), fixed.get(str(column.type), 64)

    columns = [column for column in plan.readable if column.name != ROW_ID] or list(plan.readable)
    return [min(columns, key=cost).name] if columns else []
