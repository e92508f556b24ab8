"""Paths from what pipelines and stores write about changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from metastore.errors import InvalidRequestError, StorageError
from metastore.sources.path_lists import paths_in, paths_of

S3 = {"eventName": "ObjectCreated:Put", "s3": {"bucket": {"name": "b"}, "object": {"key": "t/day%3D1/a+b.parquet"}}}
BRIDGE = {
    "detail-type": "Object Created",
    "detail": {"bucket": {"name": "b"}, "object": {"key": "t/day=1/a b.parquet"}},
}
GCS = {"kind": "storage#object", "bucket": "b", "name": "t/a.parquet", "size": "1"}


def test_events_name_objects() -> None:
    """S3 encodes keys as in URLs, EventBridge and Google do not; one notification has several records."""
    entries: list[Any] = ["t/a", {"path": "s3a://b/t/a%20b"}, {"Records": [S3, S3]}, BRIDGE, GCS]
    decoded = "s3://b/t/day=1/a b.parquet"
    assert list(paths_of(entries)) == ["t/a", "s3a://b/t/a%20b", decoded, decoded, decoded, "gs://b/t/a.parquet"]


def test_a_file_has_one_entry_a_line(tmp_path: Path) -> None:
    """JSON, an inventory's CSV, and paths, whatever else stands in them; blank lines count for nothing."""
    lines = [
        json.dumps({"Records": [S3]}),
        "",
        '"b","t/day%3D1/c%2C.parquet","","true","false","123","2026-11-24T00:00:00.000Z"',
        "s3://b/t/a, b.parquet",
        "/data/t/ü#%20.parquet  ",
        '["x", {"path": "y"}]',
        '"in quotes"',
    ]
    (tmp_path / "list").write_text("\n".join(lines), encoding="utf-8")
    assert list(paths_in(str(tmp_path / "list"))) == [
        "s3://b/t/day=1/a b.parquet",
        "s3://b/t/day=1/c,.parquet",
        "s3://b/t/a, b.parquet",
        "/data/t/ü#%20.parquet",
        "x",
        "y",
        "in quotes",
    ]


def test_a_mark_of_the_encoding_is_no_part_of_the_first_path(tmp_path: Path) -> None:
    """Editors and Excel write one; the first path was passed over as a file that does not exist."""
    (tmp_path / "list").write_text("t/a\nt/b\n", encoding="utf-8-sig")
    assert list(paths_in(str(tmp_path / "list"))) == ["t/a", "t/b"]


@pytest.mark.parametrize("entry", [{}, {"Records": [{}]}, {"path": 1}, [1], 7, None, {"bucket": "b"}])
def test_what_names_no_object_is_an_error(entry: Any, tmp_path: Path) -> None:
    """With its place."""
    with pytest.raises(InvalidRequestError, match=r"entry 2 of the paths names no object"):
        list(paths_of(["a", entry]))
    (tmp_path / "list").write_text(f"a\n{json.dumps({'Records': [entry]})}")
    with pytest.raises(InvalidRequestError, match=r"list, line 2 names no object"):
        list(paths_in(str(tmp_path / "list")))


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    """No JSON, no file, no text."""
    (tmp_path / "list").write_text('{"path": ')
    with pytest.raises(InvalidRequestError, match="line 1 is no JSON"):
        list(paths_in(str(tmp_path / "list")))
    (tmp_path / "deep").write_text("[" * 100_000)
    with pytest.raises(InvalidRequestError, match="line 1 is no JSON"):
        list(paths_in(str(tmp_path / "deep")))
    with pytest.raises(StorageError, match="missing"):
        list(paths_in(str(tmp_path / "missing")))
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(StorageError, match="bytes"):
        list(paths_in(str(tmp_path / "bytes")))
