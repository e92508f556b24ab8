"""A pruned scan of one table: planned once, read as often and in as many ways as needed.

The plan has the files and row groups. Every way of reading returns the same rows: exactly those that satisfy the
question. DuckDB filters rows if an Arrow expression cannot express the question.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds
from pyiceberg.expressions import BooleanExpression

from metastore.duck.session import connection, relation
from metastore.duck.sql_filter import filter_batches, named_by
from metastore.errors import InvalidRequestError
from metastore.ground.optional import library
from metastore.ground.quoting import double_quoted
from metastore.ground.threads import Threads
from metastore.lake.formats.arrow_schema import require_held, require_narrow_decimals
from metastore.lake.formats.names import PARQUET
from metastore.lake.formats.parquet.bloom_filters import Probes
from metastore.lake.formats.parquet.element_bounds import ElementProbe
from metastore.lake.stores.arrow import open_location
from metastore.predicates.arrow_filter import NotExact, RowFilter, arrow_filter
from metastore.scan.aggregates import Aggregate, aggregate
from metastore.scan.explanation import Explanation
from metastore.scan.one_dataset import gives_same_rows, pushes_down
from metastore.scan.parquet_parts import PARQUET_READER, ParquetFiles, fragments, probe_row_groups
from metastore.scan.plan import ScanFile, ScanPlan
from metastore.scan.probes import probes_of, required_elements
from metastore.scan.pruning.row_id import ROW_ID, TYPE
from metastore.scan.rows import ReadChunk, RowNumbers, read_rows_at_once

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl


_MOST_PROBED_FILES: Final = 256  # of one dataset, by their bloom filters: Arrow keeps the footers in memory
_MOST_PROBED_AT_ONCE: Final = 8


@dataclass(frozen=True)
class Scan:
    """The rows of one table that satisfy the plan's question, in ``columns``; read on request.

    ``zone`` applies to timestamps in the question without a zone. ``exclude`` has rows to leave out, by file and row
    group. With ``superset`` the result may include rows that do not match, because the caller filters again.

    Every reading method raises NotFoundError for a file that was removed since planning, FormatError for a file that
    cannot be read into the table's columns, StorageError, and InvalidRequestError if a required library is not
    installed. Methods that return all rows return them in the order of files and rows.
    """

    plan: ScanPlan = field(repr=False)
    columns: Sequence[str]
    zone: tzinfo
    exclude: Mapping[tuple[str, int], RowNumbers] = field(default_factory=dict, repr=False)
    superset: bool = False

    @classmethod
    def of(
        cls,
        plan: ScanPlan,
        columns: Sequence[str] | None,
        *,
        zone: tzinfo,
        row_id: bool = False,
        exclude: Mapping[tuple[str, int], RowNumbers] | None = None,
    ) -> Scan:
        """Create a scan of ``plan``; ``columns`` None means all. InvalidRequestError for unknown columns or none."""
        known = plan.columns
        chosen = plan.schema.names if columns is None else [known.resolve_reference(name).path[0] for name in columns]
        if len(set(chosen)) < len(chosen):
            raise InvalidRequestError(f"a column is requested twice: {', '.join(chosen)}")
        if not chosen and plan.schema.names and not row_id:
            raise InvalidRequestError("a scan of no columns has no rows; use .count() for their number")
        return cls(plan, [*chosen, ROW_ID] if row_id else chosen, zone, exclude or {})

    @property
    def files(self) -> Sequence[ScanFile]:
        """The files to read, each with its row groups and the reason."""
        return self.plan.files

    @property
    def paths(self) -> list[str]:
        """Paths of the files to read."""
        return [file.path for file in self.files]

    @property
    def row_groups(self) -> Mapping[str, tuple[int, ...] | None]:
        """The row groups to read of each file, None for all of them."""
        return {file.path: file.row_groups for file in self.files}

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns of the rows in the metastore's types; current types for a table that another system keeps."""
        return self._schema_of(self.columns)

    def _schema_of(self, names: Iterable[str]) -> pa.Schema:
        readable = self.plan.readable
        return pa.schema([pa.field(ROW_ID, TYPE) if name == ROW_ID else readable.field(name) for name in names])

    def require(self, schema: pa.Schema) -> None:
        """Raise InvalidRequestError if a column's type is not the type in ``schema``, because others changed it.

        For callers that have already announced the types in ``schema``: casting back would lose digits or give nulls.
        """
        for column in schema:
            at = self.schema.get_field_index(column.name)
            if at < 0 or self.schema.field(at).type != column.type:
                now = "gone" if at < 0 else f"of type {self.schema.field(at).type}"
                raise InvalidRequestError(
                    f"column {column.name} of {self.plan.table} was of type {column.type} when it was analyzed, "
                    f"and is {now}; run ANALYZE, which reads no data for that"
                )

    def explain(self) -> Explanation:
        """Explain what is read and what is skipped, and why; its text is for people."""
        plan = self.plan
        return Explanation.of(plan if plan.whole is None else plan.whole())

    def _repr_html_(self) -> str:
        """Show how the scan reads and why, in a notebook; no row is read."""
        return self.explain()._repr_html_()

    def count(self) -> int:
        """Return the number of rows: from exact statistics where possible, else by reading."""
        if self.exclude:
            return sum(batch.num_rows for batch in self.to_batches())
        counted: int = self.aggregate(["count(*)"])[0][0].as_py()
        return counted

    def aggregate(self, expressions: Sequence[str]) -> pa.Table:
        """Return one row with the values of ``count(*)``, ``count(x)``, ``min(x)``, ``max(x)``, named by expression.

        Files that exact statistics answer are not read; the rest is. NaN counts as the largest number. Raises
        InvalidRequestError for any other expression, and if rows are excluded.
        """
        if self.exclude:
            raise InvalidRequestError("statistics do not reflect excluded rows; aggregate what to_arrow() returns")
        plan = self.plan
        wanted = [Aggregate.parse(text, plan.columns) for text in expressions]

        def read(files: Sequence[ScanFile], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
            return Scan.of(replace(plan, files=files), names, zone=self.zone).to_batches()

        return aggregate(plan, wanted, self.zone, read)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches, read on demand."""
        if not self._in_sql:
            yield from self._filtered_rows(self.columns)
            return
        where = self.plan.question
        assert isinstance(where, str)
        schema = pa.schema([self.chunk.column(name) for name in self.columns_to_read])
        for batch in filter_batches(
            self._filtered_rows(self.columns_to_read), schema, where, self.plan.columns, self.zone
        ):
            yield batch.select(list(self.columns))

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows as a stream of Arrow batches with a schema."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def to_arrow(self) -> pa.Table:
        """Return the rows as an Arrow table."""
        if self.row_filter is None and not self._in_sql and self._is_one_dataset:
            # Arrow concatenates thousands of small files faster together than one by one.
            try:
                return self._dataset(self.columns).scanner().to_table()
            except (pa.ArrowException, OSError):
                return pa.Table.from_batches(read_rows_at_once(self.chunk), self.schema)  # it names the file that fails
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_arrow_dataset(self) -> ds.Dataset:
        """Return the rows as an Arrow dataset that reads only what a query needs.

        In these cases the dataset holds the rows in memory instead: files other than Parquet; row ids or excluded rows;
        questions that Arrow cannot express, or about floats, which may be NaN; files with numbers in a text column.
        """
        if self._in_sql or not self._is_one_dataset or not pushes_down(self.plan, self.files, self.row_filter):
            return ds.dataset(self.to_arrow())
        # A dataset filters by its own columns, so it also has those that only the question needs.
        dataset = self._dataset(self.columns_to_read)
        return dataset if self.row_filter is None else dataset.filter(self.row_filter.expression)

    def to_duckdb(self, connection_: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """Return the rows as a relation of ``connection_``, by default a new one in the scan's time zone.

        DuckDB reads through Arrow; where possible, it reads only the columns and rows that its query needs.
        """
        if not self.columns:
            raise InvalidRequestError(
                f"{self.plan.table} has no columns, and DuckDB has no relation without columns; use .count()"
            )
        engine = connection(self.zone) if connection_ is None else connection_
        dataset = self.to_arrow_dataset()
        rows: duckdb.DuckDBPyRelation = relation(engine, dataset)
        if dataset.schema.names == list(self.columns):
            return rows
        return rows.project(", ".join(map(double_quoted, self.columns)))

    def to_polars(self) -> pl.DataFrame:
        """Return the rows as a Polars frame. InvalidRequestError for a column that Polars cannot hold."""
        require_narrow_decimals(self.schema, "Polars")
        frame: pl.DataFrame = library("polars", "polars").from_arrow(self.to_arrow())
        return frame

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a pandas frame. InvalidRequestError without pandas."""
        library("pandas", "pandas")
        return self.to_arrow().to_pandas()

    @property
    def filter_is_exact(self) -> bool:
        """Whether :attr:`chunk` returns exactly the matching rows; False if SQL must filter its rows."""
        return not self._in_sql

    @property
    def row_filter(self) -> RowFilter | None:
        """The Arrow filter of rows; None if all rows pass or SQL must filter."""
        return self._filter_or_superset[0]

    @property
    def _in_sql(self) -> bool:
        """Whether Arrow expressions cannot express the question."""
        return self._filter_or_superset[1]

    @cached_property
    def _filter_or_superset(self) -> tuple[RowFilter | None, bool]:
        where = self.plan.question
        if where is None:
            return None, False
        try:
            columns, readable = self.plan.columns, self.plan.readable
            return arrow_filter(where, columns, readable, self.zone, superset=self.superset), False
        except NotExact:
            if isinstance(where, BooleanExpression):
                raise InvalidRequestError(
                    f"engines do not agree on what {where} means for the types of these columns; "
                    "give literals of the columns' types, or the question as SQL"
                ) from None
            return None, True

    @cached_property
    def chunk(self) -> ReadChunk:
        """The scan's work for a task; without a filter if SQL must filter."""
        plan = self.plan
        if ROW_ID in plan.readable.names:
            self._refuse_own_row_id()
        require_held(self._schema_of(self.columns_to_read))
        return ReadChunk(
            location=plan.location,
            schema=plan.readable,
            files=self.files,
            columns=self.columns,
            options=plan.options,
            where=self.row_filter,
            exclude=self.exclude,
            format=plan.format,
            text=plan.text,
            reader=None if plan.kept_by is None else plan.kept_by.reader(self.paths),
            found_by=plan.found_by,
            probes=self._probes,
            elements=self._elements,
        )

    @cached_property
    def _probes(self) -> Probes:
        """The values that bloom filters are probed for."""
        plan = self.plan
        return probes_of(plan.question, plan.columns) if plan.format == PARQUET and plan.kept_by is None else {}

    @cached_property
    def _elements(self) -> Sequence[ElementProbe]:
        """The values of lists and maps that bounds in footers are tested for."""
        plan = self.plan
        return required_elements(plan.question, plan.columns) if plan.format == PARQUET and plan.kept_by is None else ()

    def _refuse_own_row_id(self) -> None:
        """Raise InvalidRequestError if ``$row_id`` means a column of the files instead of row ids."""
        has_ids = all(file.ids is not None for file in self.files)
        if (ROW_ID in self.columns and not has_ids) or ROW_ID in str(self.plan.question):
            raise InvalidRequestError(
                f"{self.plan.table} has a column {ROW_ID} of its own, a name that scans keep for the ids of rows: "
                "ask for other columns"
            )

    @cached_property
    def columns_to_read(self) -> list[str]:
        """The columns to return and those that the question needs."""
        where = self.plan.question
        more: Iterable[str] = self.row_filter.columns if self.row_filter else ()
        if self._in_sql and isinstance(where, str):
            named = named_by(where, self.plan.columns)
            more = self.plan.readable.names if named is None else named
        return list(dict.fromkeys((*self.columns, *sorted(name for name in more if name != ROW_ID))))

    def _filtered_rows(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield filtered rows in ``columns``: by one dataset if its result is the same, else file by file."""
        if not self._is_one_dataset:
            yield from read_rows_at_once(replace(self.chunk, columns=columns))
            return
        where = self.row_filter
        needed = list(dict.fromkeys((*columns, *sorted(where.columns if where else ()))))
        for batch in self._rows_of_dataset(replace(self.chunk, columns=needed, where=None)):
            rows = batch if where is None else batch.filter(where.expression)
            if rows.num_rows:
                yield rows.select(list(columns))

    def _rows_of_dataset(self, chunk: ReadChunk) -> Iterator[pa.RecordBatch]:
        """Yield unfiltered rows from one dataset, and file by file from where it fails: that names the file."""
        seen = 0
        try:
            for batch in self._dataset(chunk.columns).scanner().to_batches():
                seen += batch.num_rows
                yield batch
        except (pa.ArrowException, OSError):
            for batch in read_rows_at_once(chunk):
                yield batch.slice(min(seen, batch.num_rows))
                seen = max(0, seen - batch.num_rows)

    def _dataset(self, columns: Sequence[str]) -> ds.Dataset:
        """Return the files as an unfiltered dataset of ``columns``."""
        plan = self.plan
        store, root = open_location(plan.location, plan.options)
        schema = self._schema_of(columns)
        require_held(schema)
        parts: list[Any] = list(fragments(self.files, plan.location, schema, store, root))
        if (self._probes or self._elements) and len(parts) <= _MOST_PROBED_FILES:
            with Threads(_MOST_PROBED_AT_ONCE) as threads:
                probe = partial(probe_row_groups, probes=self._probes, elements=self._elements)
                parts = list(threads.map(probe, parts, self.files))
        return ParquetFiles(parts, schema, PARQUET_READER, store)

    @cached_property
    def _is_one_dataset(self) -> bool:
        """Whether one dataset gives the same rows as single files. Many small files then take half the time."""
        if ROW_ID in self.columns or self.exclude or not self.columns:
            return False
        return gives_same_rows(self.plan, self.files)
