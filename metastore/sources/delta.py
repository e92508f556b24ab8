"""Delta tables: files and statistics from the add actions of the current version, by deltalake (extra ``delta``).

Bounds in the log may be imprecise. Delta truncates timestamps to milliseconds, and offsets from UTC to minutes. Writers
may shorten texts, and some store decimals as doubles. Such bounds are widened, and are not exact; neither are bounds of
floats that became doubles.

A file's partition values hold for all its rows. A table with column mapping keeps statistics by the physical names in
its files. The state of a file is its modification time, with a digest of the table's columns in the part below a
millisecond. If columns are mapped, or deletion vectors delete rows, it is a hash of everything that determines the
file's rows.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from functools import cached_property
from math import isfinite
from typing import Any, Final, get_args
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from metastore.errors import EngineError, InvalidRequestError, NotFoundError, StorageError
from metastore.ground.distribution import install_command
from metastore.lake.formats.arrow_schema import tuple_schema
from metastore.lake.formats.source_file import SourceFile
from metastore.lake.iceberg.columns.bound_values import above_all_with
from metastore.lake.stores.bounded_reading import Limit, ReadLimits
from metastore.lake.stores.locations import one_spelling
from metastore.model.column_path import ColumnPath
from metastore.model.drill_types import minor_type, parse_type
from metastore.model.statistics import ColumnStatistics, Value
from metastore.model.tuple_schema import TupleSchema
from metastore.sources.delta_log import require_bounded_log
from metastore.sources.delta_options import delta_options
from metastore.sources.delta_rows import DeltaFile, DeltaRows, RowNumbers, stored_path, stored_schema
from metastore.sources.provided_tables import Measures, ProvidedFile, by_key, column_statistics, source_file, state_of

FORMAT: Final = "DELTA"

_UTC: Final = timezone.utc
_CUT: Final = timedelta(microseconds=999)
_TEXTS: Final = ("VARCHAR", "VARBINARY")
_PRECISE: Final = 15
"""Digits of a decimal that a double keeps."""

_MAPPING: Final = "columnMapping"
_DELETION_VECTORS: Final = "deletionVectors"
_WIDENING: Final = ("typeWidening", "typeWidening-preview")
_FEATURES: Final = frozenset(
    {_MAPPING, _DELETION_VECTORS, "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck", *_WIDENING}
)
"""Reader features that this module supports."""

_NANOS: Final = 1_000_000
_DEFAULT_LIMIT: Final = ReadLimits().limit_of("delta_log")


class DeltaSource:
    """The current version of the Delta table at ``location``."""

    format: Final = FORMAT

    def __init__(self, location: str, options: Mapping[str, str] | None = None, limit: Limit = _DEFAULT_LIMIT) -> None:
        self.location = location
        self._options = delta_options(location, options or {})
        self._limit = limit

    def files(self) -> Sequence[SourceFile]:
        """As :meth:`metastore.sources.provided_tables.ProvidedTable.files`."""
        return sorted(self._actions)

    def contents(
        self,
        files: Sequence[SourceFile],
        columns: Sequence[ColumnPath] | None = None,
    ) -> Iterator[ProvidedFile]:
        """As :meth:`metastore.sources.provided_tables.ProvidedTable.contents`."""
        for file in files:
            yield self._content(file, self._actions[file])

    def modified_times(self) -> Mapping[str, int]:
        """As :meth:`metastore.sources.provided_tables.ProvidedTable.modified_times`."""
        return {file.path: action["modification_time"] * _NANOS for file, action in self._actions.items()}

    @cached_property
    def schema(self) -> TupleSchema:
        """As :attr:`metastore.sources.provided_tables.ReadableTable.schema`."""
        return tuple_schema(self._arrow)[0]

    def reader(self, paths: Sequence[str]) -> DeltaRows:
        """As :meth:`metastore.sources.provided_tables.ReadableTable.reader`."""
        if unknown := sorted(self._features - _FEATURES):
            raise InvalidRequestError(
                f"the Delta table at {self.location} requires the reader features {', '.join(unknown)}, which "
                f"scans do not support; "
                "read it with deltalake (DeltaTable.scan), or by Spark"
            )
        actions = {file.path: action for file, action in self._actions.items()}
        if gone := [path for path in paths if path not in actions]:
            raise NotFoundError(f"{gone[0]} is no file of the Delta table at {self.location} any more; run ANALYZE")
        files = {path: DeltaFile(actions[path]["partition"] or {}, self._deleted_rows.get(path)) for path in paths}
        stored = stored_schema(self._arrow) if self._maps_columns else self._arrow
        by_id = self._maps_columns and self._mapping == "id"
        return DeltaRows(self.location, self._arrow, stored, files, self._options, by_id)

    @cached_property
    def _table(self) -> Any:
        try:
            deltalake = importlib.import_module("deltalake")
        except ImportError as error:
            raise EngineError(f"Delta tables are read by deltalake: {install_command('delta')}") from error
        try:
            require_bounded_log(self.location, self._options, self._limit)
            return deltalake.DeltaTable(one_spelling(self.location), storage_options=self._options or None)
        except deltalake.exceptions.TableNotFoundError as error:
            raise NotFoundError(f"there is no Delta table at {self.location}") from error
        except (deltalake.exceptions.DeltaError, OSError) as error:
            raise StorageError(f"the Delta table at {self.location} cannot be opened: {error}") from error

    @contextmanager
    def _translate_errors(self, what: str) -> Iterator[None]:
        """Turns errors of deltalake about ``what`` of the table into errors of ours, which name the table."""
        deltalake = importlib.import_module("deltalake")
        try:
            yield
        except (deltalake.exceptions.DeltaError, pa.ArrowException, OSError, ValueError) as error:
            message = str(error)
            if "Unsupported" in message:
                raise InvalidRequestError(
                    f"{what} of the Delta table at {self.location} cannot be read by deltalake: {message}; "
                    "upgrade deltalake, or read the table by Spark"
                ) from error
            raise StorageError(
                f"{what} of the Delta table at {self.location} cannot be read: {message}; "
                "if a file of the table is lost, restore it, or remove it from the table (FSCK REPAIR TABLE)"
            ) from error

    @cached_property
    def _actions(self) -> dict[SourceFile, Mapping[str, Any]]:
        """Each live file with its add action. A file's state changes with its columns and its deletion vector, too."""
        with self._translate_errors("the list of files"):
            rows = pa.table(self._table.get_add_actions()).to_pylist()
        columns = [(column.name, str(column.type), sorted((column.metadata or {}).items())) for column in self._arrow]
        found: dict[SourceFile, Mapping[str, Any]] = {}
        for row in rows:
            row.setdefault("partition", None)
            path = self._path(row["path"])
            deleted = self._deleted_rows.get(path)
            if self._maps_columns or deleted is not None:
                state = state_of(columns, row["modification_time"], None if deleted is None else deleted.tobytes())
            else:
                state = row["modification_time"] * _NANOS + state_of(columns) % _NANOS
            found[source_file(path, row["size_bytes"], state)] = row
        if strange := self._deleted_rows.keys() - {file.path for file in found}:
            raise StorageError(f"{min(strange)} has a deletion vector and is no file of the table at {self.location}")
        return found

    @cached_property
    def _deleted_rows(self) -> dict[str, RowNumbers]:
        """Returns the numbers of deleted rows, by the path of their file; the table must be readable."""
        found: dict[str, RowNumbers] = {}
        if _DELETION_VECTORS not in self._features or not self._features <= _FEATURES:
            return found
        with self._translate_errors("a deletion vector"):
            for batch in pa.RecordBatchReader.from_stream(self._table.deletion_vectors()):
                for uri, kept in zip(batch["filepath"], batch["selection_vector"], strict=True):
                    mask = kept.values.to_numpy(zero_copy_only=False)
                    found[self._path(uri.as_py())] = np.flatnonzero(~mask)
        return found

    def _path(self, location: str) -> str:
        """Returns the metastore's path of a file, from the log's path, which is relative or absolute, and escaped."""
        path = unquote(location)
        if path.startswith("file:"):
            return "/" + path[len("file:") :].lstrip("/")
        return path if "://" in path or path.startswith("/") else f"{self.location}/{path}"

    @cached_property
    def _arrow(self) -> pa.Schema:
        with self._translate_errors("the schema"):
            return pa.schema(self._table.schema().to_arrow())

    @cached_property
    def _features(self) -> frozenset[str]:
        """Returns the features that the table requires of readers."""
        protocol = self._table.protocol()
        named = frozenset(protocol.reader_features or ())
        return named | {_MAPPING} if protocol.min_reader_version == 2 else named

    @cached_property
    def _mapping(self) -> str:
        return str(self._table.metadata().configuration.get("delta.columnMapping.mode", "none"))

    @property
    def _maps_columns(self) -> bool:
        return _MAPPING in self._features and self._mapping != "none"

    def _content(self, file: SourceFile, action: Mapping[str, Any]) -> ProvidedFile:
        rows = action.get("num_records")
        is_known = self._features <= _FEATURES or _DELETION_VECTORS not in self._features
        whole = rows is not None and is_known and file.path not in self._deleted_rows
        statistics: dict[ColumnPath, ColumnStatistics] = {}
        for path, type_ in self.schema.leaves():
            if parse_type(type_).parts:
                continue
            if rows is None:
                statistics[path] = ColumnStatistics(minor_type(type_))
            else:
                measures = self._measures(path, type_, rows, action)
                statistics[path] = column_statistics(type_, rows, measures, whole=whole)
        return ProvidedFile(file, self.schema, by_key(statistics), rows or 0, whole)

    def _measures(self, path: ColumnPath, type_: str, rows: int, action: Mapping[str, Any]) -> Measures:
        """Bounds and nulls of a leaf in one file, widened by as much as the log may have rounded them."""
        if path[0] in (action["partition"] or {}):
            value = _value(action["partition"][path[0]])
            return Measures(value, value, rows if action["partition"][path[0]] is None else 0)
        stored = stored_path(self._arrow, path) if self._maps_columns else path
        low, high = (_value(_at(action.get(side), stored)) for side in ("min", "max"))
        nulls = _at(action.get("null_count"), stored)
        parsed = parse_type(type_)
        if isinstance(low, datetime) or isinstance(high, datetime):
            return Measures(_move_bound(low, -1), _move_bound(high, 1), nulls, exact=False)
        if isinstance(low, float) and isinstance(high, float) and self._features.intersection(_WIDENING):
            # A FLOAT that became a DOUBLE: the log has the shortest text of the float, which denotes another double.
            return Measures(low - _float_error(low), high + _float_error(high), nulls, exact=False)
        if isinstance(high, str):
            return Measures(low, _upper_bound_of(high), nulls, exact=False)
        if isinstance(low, Decimal) and isinstance(high, Decimal) and parsed.arguments[0] > _PRECISE:
            return Measures(low - abs(low) * _ROUNDED, high + abs(high) * _ROUNDED, nulls, exact=False)
        return Measures(low, high, nulls, exact=minor_type(type_) not in _TEXTS)


_OFFSETS_OF_MINUTES: Final = datetime(1973, 1, 1, tzinfo=_UTC)
"""Before this, zones differed from UTC by seconds, which logs truncate to minutes. Liberia's was the last such zone."""
_MINUTE: Final = timedelta(minutes=1)


def _move_bound(bound: Any, side: int) -> Any:
    """Returns a bound of timestamps, moved outwards (``side`` -1 or 1) by as much as writers may have truncated.

    Fractions are truncated to milliseconds, and offsets from UTC to minutes. Returns None beyond the supported years.
    """
    if not isinstance(bound, datetime):
        return bound
    margin = _CUT if side > 0 else timedelta()
    if bound.tzinfo is not None and bound < _OFFSETS_OF_MINUTES:
        margin += _MINUTE
    try:
        return bound + side * margin
    except OverflowError:
        return None


def _float_error(value: float) -> float:
    return abs(value) * 2.0**-23 if isfinite(value) else 0.0


_CUT_AT: Final = 32
"""Characters that writers keep of a text; not all of them mark a shortened upper bound."""


def _upper_bound_of(text: str) -> str | None:
    """Returns an upper bound of all texts that begin with ``text``, if it may be shortened; None if there is none."""
    if len(text) < _CUT_AT or text.endswith(_LAST_CHARACTERS):
        return text
    found: str | None = above_all_with(text)
    return found


_LAST_CHARACTERS: Final = ("\ufffd", "\U0010ffff")
"""The characters that some writers append to a shortened upper bound."""

_ROUNDED: Final = Decimal("1e-15")
"""More than a decimal loses as a double, relative to its size."""


def _at(nested: Any, path: Sequence[str]) -> Any:
    for name in path:
        nested = nested.get(name) if isinstance(nested, Mapping) else None
    return nested


def _value(value: Any) -> Value | None:
    if isinstance(value, datetime) and value.tzinfo is not None:
        return value.astimezone(_UTC)
    return value if isinstance(value, get_args(Value)) and value == value else None
