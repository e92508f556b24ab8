"""Manifests as other libraries read them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import fastavro
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat, ManifestContent
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField

from metastore.lake.iceberg.manifests.manifest_writer import write_manifest_file
from metastore.lake.iceberg.manifests.manifests import added_entry
from metastore.lake.stores.new_files import NewFiles


def test_ids_of_equality_deletes_are_ints(tmp_path: Path) -> None:
    """As the specification has them: Iceberg's Java library cannot read a table in which they are longs."""
    file = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES,
        file_path="f",
        file_format=FileFormat.PARQUET,
        partition=Record(),
        record_count=1,
        file_size_in_bytes=1,
        equality_ids=[1, 7],
    )
    schema = Schema(NestedField(1, "n", LongType(), required=False))
    place, deletes = str(tmp_path / "m.avro"), ManifestContent.DELETES
    spec = UNPARTITIONED_PARTITION_SPEC
    made = write_manifest_file(NewFiles(PyArrowFileIO()), place, 2, spec, schema, 5, [added_entry(file, 5)], deletes)
    with open(place, "rb") as stream:
        found: Any = fastavro.reader(stream)
        described = next(each for each in found.writer_schema["fields"] if each["name"] == "data_file")["type"][
            "fields"
        ]
        ids = next(each["type"] for each in described if each["name"] == "equality_ids")
        assert next(each for each in ids if each != "null")["items"] == "int"
        assert [entry["data_file"]["equality_ids"] for entry in found] == [[1, 7]]
    entries: list[Any] = made.fetch_manifest_entry(PyArrowFileIO())
    assert [entry.data_file.equality_ids for entry in entries] == [[1, 7]]
