"""Opens bytes as a file of a format, without a store: what a task gets of a file."""

from __future__ import annotations

from typing import Any

from metastore.lake.formats.file_format import FileData, Opening, Source
from metastore.lake.formats.names import format_record
from metastore.lake.formats.text.text_options import TextOptions
from metastore.model.tuple_schema import TupleSchema


def opened_data(format_: str, source: Source, declared: TupleSchema | None = None, **options: Any) -> FileData:
    """The data that ``source`` opens; ``options`` are those of delimited text."""
    record = format_record(format_)
    assert record.open_data
    return record.open_data(source, Opening(record, "", declared, text=TextOptions.of(options)))
