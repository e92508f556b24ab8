"""The request of an ANALYZE: one value from every door to the run, and its check.

A new option is a field here, what the run does with it (:class:`metastore.analyze.changes.WantedMetadata`), and its
word in SQL (``metastore/sql/analyze.py``) and on the command line (``metastore/cli/commands/statistics.py``).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from metastore.analyze.changes import WantedMetadata
from metastore.analyze.declared_schema import declared_schema
from metastore.analyze.levels import level_named
from metastore.errors import InvalidRequestError
from metastore.lake.formats.bounds_from_data import BoundsFrom
from metastore.lake.formats.names import format_named
from metastore.lake.formats.text.text_options import TextOptions
from metastore.model.column_path import ColumnPath, parse
from metastore.model.sketches.description import Describing
from metastore.model.vocabulary import MetadataType


class AnalyzeOptions(TypedDict, total=False):
    """The fields of :class:`AnalyzeRequest` as keyword arguments of ``Session.analyze``."""

    columns: Sequence[str] | None
    level: MetadataType | str
    statistics: Sequence[str] | bool
    sample: float | None
    format: str | None
    schema: str | None
    options: Mapping[str, Any] | None
    bounds: Sequence[str] | str | None
    case_sensitive: bool | None


@dataclass(frozen=True)
class AnalyzeRequest:
    """The options of an ANALYZE.

    * ``columns`` limits statistics to these columns; a struct includes its leaves. An empty list means no columns, None
      means all.
    * ``level`` is the depth of the metadata.
    * ``statistics`` adds distinct values, width and histogram for these columns, or for all analyzed ones (True).
      Statistics from earlier runs are updated in any case.
    * ``sample`` is the percentage of rows that these statistics are estimated from; None means all rows.
    * ``format`` is the files' format, needed if their suffixes do not show it.
    * ``schema`` declares the table's columns (``a INT, b VARCHAR``). Later runs keep it.
    * ``options`` say how delimited text is written (:class:`metastore.lake.formats.text.text_options.TextOptions`).
      Later runs keep them.
    * ``bounds`` says where bounds of Parquet columns come from: ``auto``, ``footers``, ``data``, or column names
      (:class:`metastore.lake.formats.bounds_from_data.BoundsFrom`). Later runs keep it.
    * ``case_sensitive`` keeps columns of files and directories apart if their names differ only in case. None uses the
      session's setting, and means False here.
    """

    columns: Sequence[str] | None = None
    level: MetadataType | str = MetadataType.ROW_GROUP
    statistics: Sequence[str] | bool = False
    sample: float | None = None
    format: str | None = None
    schema: str | None = None
    options: Mapping[str, Any] | None = None
    bounds: Sequence[str] | str | None = None
    case_sensitive: bool | None = None

    def to_wanted_metadata(self) -> WantedMetadata:
        """The checked request. Raises InvalidRequestError for an invalid option; the format is determined later."""
        columns = None if self.columns is None else _paths(self.columns)
        named = columns or ()
        describing = None
        if self.statistics is not False:
            described = None if self.statistics is True else _paths(self.statistics)
            describing = Describing(described, None if self.sample is None else _percent(self.sample))
            named = tuple(dict.fromkeys((*named, *(described or ()))))
            if columns is not None:
                columns = named
        elif self.sample is not None:
            raise InvalidRequestError("a sample applies to statistics only: name their columns, too")
        format_ = "" if self.format is None else format_named(self.format)
        declared = None if self.schema is None else declared_schema(self.schema)
        text = None if self.options is None else TextOptions.of(self.options)
        bounds = None if self.bounds is None else BoundsFrom.of(self.bounds)
        if bounds is not None:
            named = tuple(dict.fromkeys((*named, *bounds.columns)))
            if columns is not None:
                columns = tuple(dict.fromkeys((*columns, *bounds.columns)))
        return WantedMetadata(
            level=level_named(str(self.level)),
            columns=columns,
            describing=describing,
            format=format_,
            declared=declared,
            named=named,
            text=text,
            case_sensitive=bool(self.case_sensitive),
            bounds=bounds,
            bounds_are_own=bounds is not None,
        )


def _paths(columns: Sequence[str]) -> tuple[ColumnPath, ...]:
    return tuple(dict.fromkeys(parse(column) for column in columns))


def _percent(sample: float) -> float:
    if not 0 < sample <= 100:
        raise InvalidRequestError(f"a sample of {sample} percent is out of range; give more than 0 and at most 100")
    return float(sample)
