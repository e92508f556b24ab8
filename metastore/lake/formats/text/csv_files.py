"""Delimited text as Arrow: names from the first line; types from all values, or declared.

The types BIGINT, DECIMAL (integers beyond 64 bits), DOUBLE, BOOLEAN, DATE and TIMESTAMP are tried in this order. A
column has the first type in which all its values can be read; else it is text. No type is guessed from a sample: a file
is read once to find the types and once for the values, so no later line can contradict them.

An empty field is null; a quoted empty field is the empty text, as in Spark. Names also follow Spark: a name that occurs
several times gets its position appended (``a0``, ``a2``), and an empty name becomes its position (``_c1``). A file
without a header line has one column ``columns``, a list of texts, as in Drill; or the declared columns, in their order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from metastore.errors import FormatError
from metastore.lake.formats.arrow_schema import arrow_schema, rows_without_columns
from metastore.lake.formats.file_format import FileData, FileFormat, Opening, Source
from metastore.lake.formats.text.text_options import TextOptions
from metastore.lake.formats.text.text_patterns import moment_pattern
from metastore.lake.formats.text.text_streams import PlainText, plain_pieces
from metastore.model.sketches.hashing import ArrowValues

COLUMNS: Final = "columns"
"""The only column of a file without a header line and without declared columns."""

_BLOCK: Final = 4 << 20
_DIGITS: Final = 38

_DATE, _TIMESTAMP = pa.date32(), pa.timestamp("us")
_TYPES: Final[Mapping[pa.DataType, str]] = {
    pa.int64(): r"^[+-]?\d+$",
    pa.decimal128(_DIGITS, 0): r"^[+-]?\d{1,38}$",
    pa.float64(): r"^([+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|NaN|[+-]?Inf(inity)?)$",
    pa.bool_(): r"^([tT][rR][uU][eE]|[fF][aA][lL][sS][eE])$",
    _DATE: r"^\d{4}-\d{2}-\d{2}$",
    _TIMESTAMP: r"^\d{4}-\d{2}-\d{2}([ T]\d{2}:\d{2}(:\d{2}(\.\d{1,6})?)?)?$",
}
"""A pattern for a type's values; the cast checks their range."""


def open_delimited(source: Source, opening: Opening, delimiter: str) -> FileData:
    """Opens a delimited file. ``delimiter`` is the format's; the options of ``opening`` may replace it.

    A batch without columns still has its number of rows.
    """
    declared = None if opening.declared is None else arrow_schema(opening.declared)
    file = _DelimitedFile(source, delimiter, opening.text, declared)
    known = frozenset(file.schema.names)
    return FileData(file.schema, file.batches, [name for name in file.names if name not in known])


class _DelimitedFile:
    """One file, and the options to read it."""

    def __init__(self, source: Source, delimiter: str, options: TextOptions, declared: pa.Schema | None) -> None:
        self._source = source
        self._options = options
        self._delimiter = options.delimiter or delimiter
        self._declared = declared
        self._moments = {
            type_: moment_pattern(pattern)
            for type_, pattern in ((_DATE, options.date_format), (_TIMESTAMP, options.timestamp_format))
            if pattern
        }

    @cached_property
    def names(self) -> list[str]:
        """The columns in order; without a header line, the declared ones, or one for each field of the first line."""
        fields = self._first_line
        if self._options.header:
            return _distinct(fields)
        if self._is_list:
            return [COLUMNS] if fields else []
        return self._positions[: len(fields)]

    @cached_property
    def schema(self) -> pa.Schema:
        """Returns the columns and their types; of declared columns, those that the file has."""
        if self._is_list:
            return pa.schema([(name, pa.list_(pa.string())) for name in self.names])
        if self._declared is None:
            return self._infer_schema()
        present = frozenset(self.names)
        return pa.schema([field for field in self._declared if field.name in present])

    def batches(self, chosen: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields the rows in the ``chosen`` columns."""
        fields = [self.schema.field(name) for name in chosen]
        if self._is_list:
            yield from self._lists(fields)
            return
        for batch in self._texts(list(chosen)):
            if not fields:
                yield rows_without_columns(batch.num_rows)
                continue
            columns = [self._cast(batch.column(field.name), field) for field in fields]
            yield pa.record_batch(columns, schema=pa.schema(fields))

    @property
    def _is_list(self) -> bool:
        return not self._options.header and self._positions in ([], [COLUMNS])

    @property
    def _positions(self) -> list[str]:
        """Returns the column names of a file without a header line, if they are known."""
        return list(self._options.names) or ([] if self._declared is None else self._declared.names)

    @cached_property
    def _first_line(self) -> list[str]:
        """Returns the fields of the first line, unchanged."""
        try:
            with self._reader(csv.ConvertOptions()) as reader:
                return list(reader.schema.names)
        except pa.ArrowInvalid as error:
            if "Empty CSV" in str(error):
                return []
            raise

    def _infer_schema(self) -> pa.Schema:
        """The first type of each column that all its values have; null if it has no value."""
        possible = {name: list(_TYPES) for name in self.names}
        held = dict.fromkeys(self.names, False)
        digits = dict.fromkeys(self.names, 1)
        for batch in self._texts(self.names):
            for name in self.names:
                values = batch.column(name).drop_null()
                if len(values):
                    held[name] = True
                    possible[name] = [type_ for type_ in possible[name] if self._reads_as(values, type_)]
                    if possible[name] and pa.types.is_decimal(possible[name][0]):
                        digits[name] = max(digits[name], _digits(values))
        found = []
        for name in self.names:
            type_ = (possible[name] or [pa.string()])[0] if held[name] else pa.null()
            found.append((name, pa.decimal128(max(digits[name], 20), 0) if pa.types.is_decimal(type_) else type_))
        return pa.schema(found)

    def _lists(self, fields: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        names = [f"{place}" for place in range(len(self._first_line))]
        for batch in self._texts(names, named=names, nulls=False):
            if not fields:
                yield rows_without_columns(batch.num_rows)
                continue
            values: Any = pa.concat_arrays(batch.columns)
            order = np.arange(len(values)).reshape(len(names), -1).T.ravel()
            offsets = pa.array(np.arange(batch.num_rows + 1) * len(names), pa.int32())
            lists: Any = pa.ListArray.from_arrays(offsets, values.take(pa.array(order)))
            yield pa.record_batch([lists], schema=pa.schema(fields))

    def _texts(
        self, columns: Sequence[str], *, named: Sequence[str] | None = None, nulls: bool = True
    ) -> Iterator[pa.RecordBatch]:
        """Yields ``columns`` as texts; without columns, one column that counts the rows."""
        names = list(named or self.names)
        # pyarrow finds columns by name. Columns beyond the declared ones get names that no column has.
        names += [f"\0{place}" for place in range(len(names), len(self._first_line))]
        if not names:
            return
        options = csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()),
            include_columns=list(columns) or names[:1],
            null_values=[self._options.null_value],
            strings_can_be_null=nulls,
            quoted_strings_can_be_null=False,
        )
        with self._reader(options, names) as reader:
            yield from reader

    def _reader(self, options: csv.ConvertOptions, names: Sequence[str] | None = None) -> csv.CSVStreamingReader:
        """Returns a reader; with ``names`` all lines are rows, else the first line has the names."""
        own = self._options
        pieces = plain_pieces(self._source(), self._delimiter, own)
        reading = csv.ReadOptions(
            block_size=_BLOCK,
            use_threads=False,
            column_names=list(names) if names else None,
            skip_rows_after_names=int(names is not None and own.header),
        )
        parsing = csv.ParseOptions(
            delimiter=self._delimiter,
            quote_char=own.quote or False,
            double_quote=True,
            newlines_in_values=own.multi_line,
        )
        file: Any = PlainText(pieces)
        return csv.open_csv(file, reading, parsing, options)

    def _reads_as(self, values: ArrowValues, type_: pa.DataType) -> bool:
        pattern = self._moments[type_].looks if type_ in self._moments else _TYPES[type_]
        if not pc.all(pc.match_substring_regex(values, pattern)).as_py():
            return False
        try:
            self._convert_values(values, type_)
        except pa.ArrowInvalid:
            return False
        return True

    def _cast(self, values: ArrowValues, field: Any) -> ArrowValues:
        if pa.types.is_null(field.type):
            return pa.nulls(len(values))
        try:
            return self._convert_values(values, field.type)
        except pa.ArrowException as error:
            raise FormatError(f"column {field.name} holds a value that is no {field.type}: {error}") from error

    def _convert_values(self, values: ArrowValues, type_: pa.DataType) -> ArrowValues:
        if type_ in self._moments:
            found: ArrowValues = self._moments[type_].read(values, type_)
            return found
        if pa.types.is_boolean(type_):
            values = pc.utf8_lower(values)
        elif pa.types.is_integer(type_) or pa.types.is_decimal(type_):
            values = pc.replace_substring_regex(values, pattern=r"^\+(\d|\.)", replacement=r"\1")
        return pc.cast(values, type_)


def _distinct(names: Sequence[str]) -> list[str]:
    repeated = {name for name, times in Counter(names).items() if times > 1}
    return [f"{name}{place}" if name in repeated and name else name or f"_c{place}" for place, name in enumerate(names)]


def _digits(values: ArrowValues) -> int:
    bare = pc.replace_substring_regex(values, pattern=r"^[+-]?0*", replacement="")
    found: int = pc.max(pc.utf8_length(bare)).as_py()
    return found


def _make_format(name: str, delimiter: str, *suffixes: str) -> FileFormat:
    open_data = partial(open_delimited, delimiter=delimiter)
    return FileFormat(name, suffixes, open_data, is_text=True, takes_text_options=True)


DELIMITED_FILES: Final = (
    _make_format("CSV", ",", "csv", "csvh"),
    _make_format("TSV", "\t", "tsv"),
    _make_format("PSV", "|", "psv", "tbl"),
)
