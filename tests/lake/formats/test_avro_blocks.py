"""A block of Avro that states another number of rows than it holds is an error that names the file; no row is lost."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import FileFormat
from support.tables_of_kinds import settings_of_kinds

from metastore.errors import FormatError
from metastore.lake.iceberg.manifests.data_file import open_data_file
from metastore.session import connect

SCHEMA = {
    "type": "record",
    "name": "row",
    "fields": [{"name": "id", "type": "long"}, {"name": "v", "type": ["null", "string"]}],
}
ROWS = st.lists(st.fixed_dictionaries({"id": st.integers(-(2**40), 2**40), "v": st.none() | st.text(max_size=5)}))


def written(blocks: list[list[Any]], codec: str, stated: dict[int, int]) -> bytes:
    """An Avro file of ``blocks``; those in ``stated`` state another number of rows."""
    content = io.BytesIO()
    fastavro.writer(content, SCHEMA, [], codec=codec)
    header = content.getvalue()
    sync, whole = header[-16:], header
    for number, rows in enumerate(blocks):
        block = io.BytesIO()
        fastavro.writer(block, SCHEMA, rows, codec=codec, sync_marker=sync)
        body = block.getvalue()[len(header) :]
        if body:
            count = _number(len(rows))
            assert body.startswith(count)
            whole += _number(stated.get(number, len(rows))) + body[len(count) :]
    return whole


def _number(value: int) -> bytes:
    encoded = io.BytesIO()
    fastavro.schemaless_writer(encoded, "long", value)
    return encoded.getvalue()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=15, deadline=None)
@given(
    blocks=st.lists(ROWS.filter(bool), min_size=1, max_size=3),
    codec=st.sampled_from(["null", "deflate"]),
    place=st.integers(0, 2),
    off=st.sampled_from([-30, -2, -1, 0, 1, 30]),
)
def test_a_block_holds_as_many_rows_as_it_states(
    tmp_path_factory: pytest.TempPathFactory, blocks: list[list[Any]], codec: str, place: int, off: int
) -> None:
    """ANALYZE, scans of new files and Iceberg's reader give the rows that were written, or refuse the file."""
    folder = tmp_path_factory.mktemp("lake")
    table = folder / "lake" / "t"
    table.mkdir(parents=True)
    (table / "a.avro").write_bytes(written([[{"id": 0, "v": None}]], "null", {}))
    place %= len(blocks)
    content = written(blocks, codec, {place: len(blocks[place]) + off})
    rows = [row for block in blocks for row in block]
    other = table / "b.avro"
    with connect(settings_of_kinds(folder)) as session:
        session.analyze("dfs.w.t")
        other.write_bytes(content)
        if off == 0:
            assert list(fastavro.reader(io.BytesIO(content))) == rows
            assert _of_iceberg(other, len(rows)) == rows
            assert session.tables.scan("dfs.w.t").count() == len(rows) + 1
            session.analyze("dfs.w.t")
            assert session.tables.scan("dfs.w.t").to_arrow().num_rows == len(rows) + 1
            return
        with pytest.raises(FormatError, match=r"b\.avro.*a block says that it has"):
            session.tables.scan("dfs.w.t").to_arrow()
        with pytest.raises(FormatError, match=r"b\.avro"):
            session.analyze("dfs.w.t")
        with pytest.raises(FormatError, match="block (says|has)"):
            _of_iceberg(other, max(0, len(rows) + off))


def _of_iceberg(path: Path, rows: int) -> list[Any]:
    with path.open("rb") as source:
        reader = open_data_file(source, FileFormat.AVRO, str(path))
        return [row for _, batch in reader.batches(0, rows, ["id", "v"]) for row in batch.to_pylist()]
