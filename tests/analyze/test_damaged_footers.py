"""Footers that contradict themselves are refused, by name, before Arrow is asked what it would end the process over."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.lake_folder import Lake

from metastore.analyze.changes import WantedMetadata
from metastore.analyze.run import analyze
from metastore.analyze.tasks.chunks import Cutting, Limits
from metastore.analyze.tasks.footers import FooterChunk, read_footers
from metastore.analyze.tasks.segments import make_segments
from metastore.components.metastore import Metastore
from metastore.engines.engine import LocalEngine
from metastore.errors import EngineError, FormatError
from metastore.model.identity import TableInfo
from metastore.model.mapping.arrow import plain_arrow_schema
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType
from metastore.sources.listing import list_files
from metastore.sources.source_table import SourceTable

INT64, INT96 = b"\x1c\x15\x04\x19", b"\x1c\x15\x06\x19"
"""How the description of a column's data begins, in Thrift: a structure, its type, then the list of encodings."""

OPTIONAL_K, REQUIRED_K = b"\x15\x04\x25\x02\x18\x01k", b"\x15\x04\x25\x00\x18\x01k"
"""A column of the schema: type, repetition, name. Levels are counted by it, and by then column chunks tell others."""

TABLE = TableInfo("dfs", "tmp", "t")


def test_data_of_another_type_than_the_column(tmp_path: Path) -> None:
    """A bit flipped in the type of a column chunk: the process lives, and the file is named."""
    buffer = io.BytesIO()
    pq.write_table(pa.table({"k": [1, 2], "s": ["a", "b"]}), buffer, store_schema=False)
    content = buffer.getvalue()
    footer = content[-8 - int.from_bytes(content[-8:-4], "little") :]
    assert footer.count(INT64) == 1
    damaged = content[: -len(footer)] + footer.replace(INT64, INT96)
    (tmp_path / "a.parquet").write_bytes(damaged)
    files = list_files(str(tmp_path)).files
    chunk = FooterChunk(TABLE, str(tmp_path), plain_arrow_schema(TableMetadataUnit), files)
    with pytest.raises(FormatError, match=r"a\.parquet is no readable Parquet file: .* is INT64.*INT96"):
        list(read_footers(chunk))


def errors_behind(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and those that were being handled when it was raised."""
    while error is not None:
        yield error
        error = error.__context__


def test_a_footer_that_ends_a_helper_is_named(lake: Lake, metastore: Metastore) -> None:
    """Helpers read footers as they are; when one dies of it, the error still tells which file it was."""
    source = SourceTable(TABLE, str(lake.root))
    names = [f"in={name}/{name}.parquet" for name in "abc"]
    for name in names:
        lake.write(name, {"k": [1, 2], "s": ["a", "b"]}, store_schema=False)
    with LocalEngine(2, helpers_pay_from=0) as engine:
        cutting = Cutting(source, WantedMetadata(MetadataType.FILE), 1, Limits())
        [chunk] = cutting.footers(list_files(source.location).files)
        while not engine.ready_for(read_footers):
            list(engine.run([chunk], read_footers, chunk.schema))
        while not engine.ready_for(make_segments):
            for name in names:
                lake.touch(name)
            analyze(metastore.tables, source, engine)
        version = metastore.tables.metadata.version
        content = (lake.root / names[1]).read_bytes()
        assert content.count(OPTIONAL_K) == 1
        lake.put(names[1], content.replace(OPTIONAL_K, REQUIRED_K))
        lake.touch(names[0])
        lake.touch(names[2])
        with pytest.raises(FormatError, match=r"b\.parquet") as named:
            analyze(metastore.tables, source, engine)
        assert any(isinstance(error, EngineError) for error in errors_behind(named.value)), "a helper had died of it"
    assert metastore.tables.metadata.version == version
