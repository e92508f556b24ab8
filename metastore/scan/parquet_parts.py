"""Parquet files of a scan as fragments of Arrow datasets: how Arrow opens them, and what it may skip.

:mod:`metastore.scan.rows` reads one file by its fragment; a scan can read all its files as one dataset.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow import fs

from metastore.lake.formats.accepted_files import accepted_file
from metastore.lake.formats.parquet.bloom_filters import Probes, possible_groups
from metastore.lake.formats.parquet.element_bounds import ElementProbe, groups_with_elements
from metastore.lake.formats.parquet.parquet_footer import read_footer
from metastore.lake.formats.parquet.parquet_plans import believes, plans_of
from metastore.scan.plan import ScanFile

PARQUET_READER: Final = ds.ParquetFileFormat(coerce_int96_timestamp_unit="us")
"""The options of reading Parquet. In nanoseconds, Arrow's default for INT96, times before 1677 and after 2262 would
silently change; Spark writes timestamps as INT96 by default, and reads microseconds."""


class ParquetFiles(ds.FileSystemDataset):
    """A dataset whose scanners keep no footers in memory, and skip no row groups by footers that are not believed.

    Arrow would keep the footers of all files until the last one is read: a third of a megabyte for a hundred columns in
    two row groups. Callers that scan a dataset repeatedly can keep them with ``cache_metadata=True``.
    """

    def scanner(self, *args: Any, **options: Any) -> ds.Scanner:
        """As Arrow's method; DuckDB uses it too to read datasets.

        Arrow skips row groups by their footers. If a footer has statistics that are not believed, rows are filtered
        after they are read.
        """
        options = {"cache_metadata": False, **dict(zip(("columns", "filter"), args, strict=False)), **options}
        if options.get("filter") is None or self._is_believed:
            return super().scanner(**options)
        asked = {name: options.pop(name, None) for name in ("columns", "filter")}
        rows: Any = super().scanner(**options).to_batches()
        return ds.Scanner.from_batches(rows, schema=self.schema, **asked)

    def filter(self, expression: pc.Expression) -> Any:
        """As Arrow's method; filters in memory where Arrow would skip row groups by footers that are not believed."""
        return super().filter(expression) if self._is_believed else ds.dataset(self.to_table(filter=expression))

    @property
    def _is_believed(self) -> bool:
        """Whether the footers of all files have only believed statistics."""
        try:
            parts = list(self.get_fragments())
        except ValueError:  # the dataset is filtered; its footers were checked before
            return True
        return all(map(_is_believed, parts))


def _is_believed(part: ds.Fragment) -> bool:
    """Whether a file's footer has only believed statistics; True if it cannot be read: the scan reports that."""
    assert isinstance(part, ds.FileFragment)
    try:
        with part.filesystem.open_input_file(part.path) as source:
            footer = read_footer(source)
            return believes(plans_of(None).plan(footer), footer.metadata)
    except (pa.ArrowException, OSError, LookupError, ValueError):
        return True


def fragments(
    files: Sequence[ScanFile], location: str, schema: pa.Schema, store: fs.FileSystem, root: str
) -> Iterator[ds.ParquetFileFragment]:
    """Yield ``files`` as fragments of a dataset of ``schema``: the chosen row groups, with the directories' values."""
    guarantees: dict[int, pc.Expression] = {}
    for file in files:
        shared = id(file.constants)  # files of one folder share them
        if shared not in guarantees:
            guarantees[shared] = _guarantee(file.constants, schema)
        path = root + file.path[len(location) :]
        groups = None if file.row_groups is None else list(file.row_groups)
        made: Any = PARQUET_READER.make_fragment(path, store, guarantees[shared], row_groups=groups)
        yield made  # the stubs have the base class


def probe_row_groups(
    part: ds.ParquetFileFragment, file: ScanFile, probes: Probes, elements: Sequence[ElementProbe]
) -> ds.ParquetFileFragment:
    """Return fragment ``part`` of ``file`` without row groups that bloom filters and bounds of elements exclude.

    Only for files that ANALYZE has read: Arrow's objects must not be created from the footers of others. If a file
    cannot be read, the scan reports it.
    """
    wanted = {name: values for name, values in probes.items() if name not in file.constants}
    inside = [probe for probe in elements if probe.column not in file.constants]
    if not (wanted or inside) or file.schema is None or file.matched:
        return part
    source: Any = part
    try:
        groups = [group.id for group in part.row_groups]
        opened = partial(source.filesystem.open_input_file, source.path)
        left = groups_with_elements(source.metadata, inside, groups) if inside else groups
        left = possible_groups(opened, source.metadata, wanted, left) if wanted else left
        return part if len(left) == len(groups) else source.subset(row_group_ids=list(left))
    except (pa.ArrowException, OSError):
        return part


class AcceptedPart(NamedTuple):
    """A file that Arrow refuses, in a form that it accepts for one read, and the columns that must not be read."""

    part: ds.ParquetFileFragment
    unread: Mapping[str, str]


def accepted_part(part: ds.ParquetFileFragment, file: ScanFile) -> AcceptedPart | None:
    """Return ``part`` of ``file``, which Arrow refuses, with an accepted footer; None if the footer is not the cause.

    Raises the errors of :func:`metastore.lake.formats.accepted_files.accepted_file`.
    """
    accepted = accepted_file(part.filesystem.open_input_file(part.path))
    if accepted is None:
        return None
    groups = None if file.row_groups is None else list(file.row_groups)
    guarantee: Any = part.partition_expression
    content: Any = accepted.content  # the stubs lack Arrow's files
    made: Any = PARQUET_READER.make_fragment(content, None, guarantee, groups)
    return AcceptedPart(made, accepted.unread)


def _guarantee(constants: Mapping[str, Any], schema: pa.Schema) -> pc.Expression:
    """Return a condition that is true of every row with these ``constants``."""
    guarantee = pc.scalar(True)
    for name in schema.names:
        if name in constants:
            value, column = constants[name], pc.field(name)
            guarantee &= column.is_null() if value is None else column == pa.scalar(value, schema.field(name).type)
    return guarantee
