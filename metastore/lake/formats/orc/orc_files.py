"""ORC files as a schema and Arrow batches of stripes, with the statistics of their footers.

Place in the flow: the record of the format, through which ANALYZE and scans open its files. Times are read only by an
Arrow release that never changes them; a column that Arrow cannot read is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow as pa
from pyarrow import orc

from metastore.errors import FormatError
from metastore.lake.formats.file_format import FileData, FileFormat, FooterStatistics, Names, Opening, Source
from metastore.lake.formats.microseconds import in_microseconds, type_in_microseconds
from metastore.lake.formats.orc.orc_facts import read_orc
from metastore.lake.formats.orc.orc_statistics import orc_statistics
from metastore.lake.formats.orc.orc_times import require_safe_times
from metastore.model.column_path import repeated_names

_OF_HIVE_11: Final = pa.decimal128(38, 6)
"""Arrow's type for decimals without a precision, which the footer tells from others; read_orc refuses them."""


def open_orc(source: Source, opening: Opening) -> FileData:
    """Opens an ORC file. Its batches refuse columns whose times this release of Arrow would change."""
    file = orc.ORCFile(source())
    if repeated := repeated_names(file.schema.names):
        raise FormatError(f"its schema names {repeated} more than once")
    schema = pa.schema([field.with_type(type_in_microseconds(field.type)) for field in file.schema])
    if str(_OF_HIVE_11) in str(file.schema):
        with source() as tail:
            read_orc(tail, tail.size())

    def batches(names: Names) -> Iterator[pa.RecordBatch]:
        require_safe_times(pa.schema([schema.field(name) for name in names]), opening.arrow_version)
        for stripe in range(file.nstripes):
            try:
                batch = file.read_stripe(stripe, columns=list(names))
            except pa.ArrowException as error:
                found = filter(None, (_unreadable_column(file, stripe, name) for name in names))
                raise next(found, FormatError(str(error))) from error
            own = [schema.field(name) for name in batch.schema.names]
            cut = [in_microseconds(column, field.type) for column, field in zip(batch.columns, own, strict=True)]
            yield pa.RecordBatch.from_arrays(cut, schema=pa.schema(own)) if own else batch

    def footer() -> FooterStatistics | None:
        with source() as tail:
            return orc_statistics(tail)

    return FileData(schema, batches, footer=footer)


def _unreadable_column(file: orc.ORCFile, stripe: int, name: str) -> FormatError | None:
    """Returns why a column of a stripe cannot be read by itself; None if it can."""
    try:
        file.read_stripe(stripe, columns=[name])
    except pa.ArrowException as error:
        text = f"column {name}: {error}"
        if "nanosecond" in str(error):
            text += "; only times from 1677 to 2262 can be read from ORC here: select the other columns"
        return FormatError(text)
    return None


ORC_FILES: Final = FileFormat("ORC", ("orc",), open_orc, has_footers=True)
