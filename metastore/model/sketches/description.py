"""The statistics of COMPUTE STATISTICS for a column: distinct values, width and distribution; and how they are stored.

:class:`ColumnDescriber` makes a :class:`Description` of a file's rows. Descriptions are kept with the units of files
and segments, and combined upwards; :func:`summary_holders` turns them into Drill's statistics. Units keep them in
``additionalMetadata``, not among the column statistics: they are large, and planning a scan never reads that column.

Promise: union is associative and commutative, so an incremental run gives the same result as a full run.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from metastore.errors import FormatError
from metastore.ground.epoch import EPOCH_DATE
from metastore.model.column_path import ColumnPath
from metastore.model.sketches.hashing import SLICE, ArrowValues, distinct_first, domain_of, hashes_of
from metastore.model.sketches.row_sample import Draws, RowDraw, RowSample, as_numbers
from metastore.model.sketches.theta import Theta, ThetaBuilder
from metastore.model.statistics import ColumnStatistics, Value
from metastore.model.statistics_json import histogram_json, holder_json, holder_of, micros
from metastore.model.vocabulary import Statistic

_DAY_MILLIS: Final = 86_400_000
ENTRY: Final = "metastore.sketches"
"""The name of all columns' descriptions in a unit's ``additionalMetadata``."""


@dataclass(frozen=True)
class Describing:
    """Which columns are described (None: all that are analyzed), from which percentage of their rows (None: all)."""

    columns: tuple[ColumnPath, ...] | None = None
    percent: float | None = None

    @classmethod
    def combine(cls, before: Describing | None, now: Describing | None) -> Describing | None:
        """Returns what is described from now on, if ``before`` was described before.

        No column is dropped. All rows are read if either reads all; else ``now`` gives the percentage.
        """
        if before is None or now is None:
            return now if before is None else before
        percent = None if before.percent is None else now.percent
        if before.columns is None or now.columns is None:
            return cls(None, percent)
        return cls(tuple(dict.fromkeys((*before.columns, *now.columns))), percent)


@dataclass(frozen=True, eq=False)
class Description:
    """One column over ``rows`` rows that were read; ``values`` of them are not null, in ``width`` bytes altogether.

    ``domain`` is the sketch's (:func:`metastore.model.sketches.hashing.domain_of`), empty without values. ``sample`` is
    None for text and bytes; ``sampled`` says that ``rows`` are only a sample of the file's rows.
    """

    domain: str
    theta: Theta
    width: int
    values: int
    rows: int
    sample: RowSample | None
    sampled: bool = False

    @classmethod
    def union(cls, parts: Iterable[Description]) -> Description | None:
        """Returns the description of all rows of ``parts``.

        Returns None if their domains differ, so that values are not comparable.
        """
        known = list(parts)
        held = [part for part in known if part.values]
        if len({part.domain for part in held}) > 1:
            return None
        samples = [part.sample for part in held]
        return cls(
            held[0].domain if held else "",
            Theta.union(part.theta for part in held),
            sum(part.width for part in held),
            sum(part.values for part in held),
            sum(part.rows for part in known),
            None if None in samples else RowSample.union(sample for sample in samples if sample is not None),
            any(part.sampled for part in known),
        )

    @classmethod
    def of_nulls(cls, rows: int) -> Description:
        """Returns ``rows`` rows without a value: the description for a file that lacks the column."""
        return cls("", Theta.union(()), 0, 0, rows, RowSample.union(()))

    def to_document(self) -> dict[str, Any]:
        """Returns a form that can be written as JSON."""
        document: dict[str, Any] = {
            "domain": self.domain,
            "theta": b64encode(self.theta.to_bytes()).decode(),
            "width": self.width,
            "values": self.values,
            "rows": self.rows,
        }
        if self.sampled:
            document["sampled"] = True
            document["repeated"] = b64encode(np.packbits(self.theta.repeated).tobytes()).decode()
        if self.sample is not None:
            document["sample"] = self.sample.to_text()
        return document

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Description:
        """Reads the result of :meth:`to_document`. Raises FormatError for anything else."""
        try:
            marks = np.frombuffer(b64decode(document.get("repeated", "")), np.uint8)
            sketch = b64decode(document["theta"])
            repeated = np.unpackbits(marks).astype(np.bool_) if len(marks) else None
            sample = document.get("sample")
            return cls(
                document["domain"],
                Theta.from_bytes(sketch, repeated),
                document["width"],
                document["values"],
                document["rows"],
                None if sample is None else RowSample.from_text(sample),
                document.get("sampled", False),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"a column's sketches cannot be read: {error!r}") from error


class ColumnDescriber:
    """Makes the description of one column of one file; ``draw`` samples its rows."""

    def __init__(self, draw: RowDraw, *, sampled: bool = False) -> None:
        self._draw = draw
        self._sampled = sampled
        self._domain = ""
        self._theta = ThetaBuilder()
        self._width = self._values = self._rows = 0
        self._samples: list[RowSample] | None = []

    def add(self, column: ArrowValues, places: ArrowValues, draws: Draws) -> None:
        """Add rows; ``places`` and ``draws`` select those that may be in the sample."""
        self._rows += len(column)
        if kept := _KEPT_AS.get(column.type):
            column = column.cast(kept)
        present = column.drop_null() if column.null_count else column
        if not len(present):
            return
        self._values += len(present)
        self._domain = domain_of(column.type) or ""
        if pa.types.is_dictionary(present.type):
            present, width = self._looked_up(present)
        else:
            width = _width(present)
        self._width += width
        # The frequency of a value matters only for a sample. Otherwise each value is hashed once, if that is cheaper.
        for hashes in hashes_of(present if self._sampled else distinct_first(present)):
            self._theta.add(hashes)
        self._sample(column, places, draws)

    def _looked_up(self, present: ArrowValues) -> tuple[ArrowValues, int]:
        """Returns the values behind a dictionary's indices (each once, except in a sample), and their total width."""
        # Only values that rows refer to count: a dictionary may hold more.
        counts = _count_numbers(np.asarray(present.indices), len(present.dictionary))
        used = np.flatnonzero(counts)
        distinct = present.dictionary.take(pa.array(used))
        width = int(np.asarray(pc.binary_length(distinct)) @ counts[used])
        return present.dictionary_decode() if self._sampled else distinct, width

    def description(self) -> Description:
        """Returns the description of the rows so far."""
        sample = None
        if self._samples is not None:
            sample = RowSample.union([*self._samples, RowSample.of_nothing(self._draw.bound)])
        theta = self._theta.sketch()
        return Description(self._domain, theta, self._width, self._values, self._rows, sample, self._sampled)

    def _sample(self, column: ArrowValues, places: ArrowValues, draws: Draws) -> None:
        if self._samples is None:
            return
        drawn = column.take(places)
        held = np.asarray(drawn.is_valid())
        numbers = None if pa.types.is_dictionary(column.type) else as_numbers(drawn.drop_null())
        if numbers is None:
            self._samples = None
            return
        proper = ~np.isnan(numbers)
        order = np.argsort(draws[held][proper], kind="stable")
        self._samples.append(RowSample(draws[held][proper][order], numbers[proper][order]))


_KEPT_AS: Final[Mapping[pa.DataType, pa.DataType]] = {
    pa.string_view(): pa.large_string(),
    pa.binary_view(): pa.large_binary(),
}
"""Views are converted to their plain types: Arrow can neither measure nor hash views."""


def _count_numbers(indices: npt.NDArray[Any], size: int) -> npt.NDArray[np.intp]:
    """Returns the frequency of each number below ``size``.

    It counts in parts, because numpy widens the numbers, and parts stay in the cache.
    """
    step = max(SLICE, size)
    counts = np.zeros(size, np.intp)
    for start in range(0, len(indices), step):
        counts += np.bincount(indices[start : start + step], minlength=size)
    return counts


def _width(present: ArrowValues) -> int:
    """Returns the bytes of the values: for texts and bytes their own, else the width of their type."""
    type_ = present.type
    if pa.types.is_boolean(type_):
        return len(present)
    try:
        return len(present) * int(type_.bit_width) // 8
    except ValueError:  # no fixed width
        return int(pc.sum(pc.binary_length(present)).as_py() or 0)


def distinct_values(description: Description, values: int | None) -> float:
    """Estimates the number of distinct values in the column, given that it has ``values`` altogether.

    If only a sample of rows was read, the values seen once are weighed against those seen repeatedly (the estimator of
    Haas and Stokes that PostgreSQL uses too).
    """
    found, read = description.theta.estimate, description.values
    if values is None or read >= values or not read:
        return min(found, read)
    share = 1 - float(description.theta.repeated.mean())
    # The number if each repeated value was seen twice; near it, the sketch's own error would be amplified.
    paired = read / (2 - share)
    if abs(paired - found) <= 3 * description.theta.relative_error * found:
        found = paired
    once = found * share
    return min(float(values), read * found / max(1.0, read - once + once * read / values))


def summary_holders(description: Description, statistics: ColumnStatistics) -> list[str]:
    """Returns Drill's statistics of a column, as holders; all of them are estimates, so not marked exact.

    ``statistics`` are the exact statistics of the same rows.
    """
    values, rows = statistics.non_nulls, statistics.rows
    if rows is None and statistics.nulls is not None and values is not None:
        rows = statistics.nulls + values
    share = description.values / description.rows if description.rows else 0.0
    if rows is None:
        rows = description.rows
    if values is None:
        values = round(rows * share)
    holders: dict[str, Value] = {
        Statistic.ESTIMATED_ROWS: float(rows),
        Statistic.ESTIMATED_NON_NULLS: float(values),
        Statistic.DISTINCT: float(round(distinct_values(description, values))),
    }
    if description.values:
        holders[Statistic.AVERAGE_WIDTH] = description.width / description.values
    texts = [holder_json(name, value, exact=False) for name, value in holders.items()]
    if description.sample is not None:
        low, high = (_as_number(bound) for bound in (statistics.min, statistics.max))
        histogram = description.sample.histogram(values, low, high)
        if histogram is not None:
            texts.append(holder_of(Statistic.HISTOGRAM, histogram_json(*histogram), exact=False))
    return texts


def with_holders(statistics: str, holders: Iterable[str]) -> str:
    """Returns the JSON of column statistics with further holders in it."""
    body, separator, type_ = statistics.rpartition('],"type":')
    return body + ("" if body.endswith("[") else ",") + ",".join(holders) + separator + type_


def _as_number(bound: Value | None) -> float | None:
    """Returns ``bound`` as :func:`metastore.model.sketches.row_sample.as_numbers` would."""
    if bound is None or isinstance(bound, (str, bytes)):
        return None
    if isinstance(bound, (bool, int, float)):
        return float(bound)
    if isinstance(bound, (datetime, time)):
        return micros(bound) / 1000
    return float((bound - EPOCH_DATE).days * _DAY_MILLIS) if isinstance(bound, date) else float(bound)


Descriptions = Mapping[str, Description | None]
"""By quoted column path; None for a column that was asked for and cannot be described (its values cannot be hashed, or
not be compared)."""


def descriptions_in(additional_metadata: str | None) -> dict[str, Description | None]:
    """Returns the descriptions in a unit's ``additionalMetadata``; empty if there are none."""
    if additional_metadata is None or ENTRY not in additional_metadata:
        return {}
    documents = json.loads(additional_metadata).get(ENTRY, {})
    return {
        column: None if document is None else Description.from_document(document)
        for column, document in documents.items()
    }


def descriptions_entry(descriptions: Descriptions) -> dict[str, Any]:
    """Returns the entry for ``descriptions`` in ``additionalMetadata``; empty for none."""
    if not descriptions:
        return {}
    known = sorted(descriptions.items())
    return {ENTRY: {column: None if one is None else one.to_document() for column, one in known}}


def descriptions_text(descriptions: Descriptions, state: str | None = None) -> str | None:
    """Returns a unit's ``additionalMetadata`` of ``state`` (a JSON object) and ``descriptions``; None for neither."""
    entry = descriptions_entry(descriptions)
    if not entry:
        return state
    return json.dumps((json.loads(state) if state else {}) | entry, separators=(",", ":"))
