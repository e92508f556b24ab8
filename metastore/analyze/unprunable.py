"""Finds the columns of a table that cannot skip files, and why: for ANALYZE's result and ``describe``. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from metastore.lake.formats.bounds_from_data import BoundsFrom
from metastore.lake.formats.names import FORMATS, PARQUET, WITH_FOOTERS
from metastore.model.column_path import ColumnPath, is_among, quote, sql_name
from metastore.model.drill_types import DrillType, parse_type
from metastore.model.elements import elements_of
from metastore.model.statistics import ColumnStatistics
from metastore.model.tuple_schema import DIRECTORY, DOUBTED, LOGICAL_TYPE, TupleSchema


def columns_without_bounds(
    schema: TupleSchema, statistics: Mapping[str, str], bounds: BoundsFrom, format_: str
) -> dict[str, str]:
    """Maps each column with values but without bounds, as SQL names it, to the reason.

    Columns of directories can always skip files. ``statistics`` are the table's, by quoted path; ``bounds`` says where
    its last ANALYZE took bounds from.
    """
    found: dict[str, str] = dict(schema.left_out)
    of_directories = {column.name for column in schema.columns if DIRECTORY in column.properties}
    for path, type_ in schema.leaves():
        if path[0] in of_directories:
            continue
        name = sql_name(path)
        if parse_type(type_).parts:
            if (why := _why_not_by_elements(path, parse_type(type_), statistics)) is not None:
                found[name] = why
            continue
        text = statistics.get(quote(path))
        if text is None:
            continue  # ANALYZE … COLUMNS left it out
        known = ColumnStatistics.from_json(text)
        if known.all_null or known.min is not None or known.max is not None or known.rows == 0:
            continue
        is_read = format_ != PARQUET and (format_ not in WITH_FOOTERS or bounds.source != "footers")
        was_read = bounds.source == "data" or is_among(path, bounds.columns) or is_read
        logical = schema.by_name[path[0]].leaf_property(LOGICAL_TYPE, path)
        if format_ not in FORMATS:
            found[name] = f"the metadata of the {format_} table lacks bounds of it in some file"
        elif was_read or (bounds.source == "auto" and logical == "int96"):
            found[name] = "its values have no order that all engines agree on, or no bound that can be stored"
        else:
            doubted = schema.by_name[path[0]].leaf_property(DOUBTED, path)
            why = doubted or "a footer lacks bounds that can be trusted"
            found[name] = f"{why}; ANALYZE … BOUNDS ({name}) reads its data"
    return found


def _why_not_by_elements(path: ColumnPath, container: DrillType, statistics: Mapping[str, str]) -> str | None:
    """Why no test of what a list or map holds can skip files; None if it can."""
    inside = [quote(one) for one, _ in elements_of(path, container)]
    if not inside:
        return "lists and maps of such values have no bounds"
    known = [ColumnStatistics.from_json(statistics[key]) for key in inside if key in statistics]
    if any(one.all_null or one.min is not None for one in known):
        return None
    return f"the files lack bounds of what it holds; ANALYZE … BOUNDS ({sql_name(path)}) reads its data"
