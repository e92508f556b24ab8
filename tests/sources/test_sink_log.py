"""Logs of streaming sinks, written by hand: what they leave of a directory, and when there is no saying."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from services.s3 import ACCESS_KEY, SECRET_KEY, S3Server

from metastore.errors import FormatError, InvalidRequestError, MetastoreError, NotFoundError
from metastore.lake.formats.source_file import SourceFile
from metastore.model.identity import TableInfo
from metastore.sources.listing import list_files
from metastore.sources.source_table import SourceTable

Log = Callable[..., None]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A table with three files, one of them in a directory with an odd name."""
    path = tmp_path / "my table"
    for name in ("a", "k=x%2F1 #/b", "c"):
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("data")
    return path


@pytest.fixture
def log(root: Path) -> Log:
    """Write one batch of the log."""
    (root / "_spark_metadata").mkdir()

    def write(batch: str, *names: str, action: str = "add", below: Path = root, size: int = 4) -> None:
        entries = [{"path": (below / name).as_uri(), "size": size, "action": action} for name in names]
        (root / "_spark_metadata" / batch).write_text("\n".join(["v1", *map(json.dumps, entries)]))

    return write


def files(root: Path, only: Callable[[str], bool] | None = None) -> list[str]:
    """The table's files, relative to it."""
    found = SourceTable(TableInfo("dfs", "tmp", "t"), str(root)).files(only)
    assert all(isinstance(file, SourceFile) for file in found)
    return [file.path[len(str(root)) + 1 :] for file in found]


def test_only_logged_files_are_the_tables(root: Path, log: Log) -> None:
    """Batch by batch; no batch, no file. Whoever does not ask for the log, as Hive, has all."""
    assert files(root) == []
    log("0", "k=x%2F1 #/b")
    assert files(root) == ["k=x%2F1 #/b"]
    log("1")
    log("2", "a")
    assert files(root) == ["a", "k=x%2F1 #/b"]
    assert len(list_files(str(root)).files) == 3


def test_a_compact_batch_stands_for_all_before_it(root: Path, log: Log) -> None:
    """Whether these are still there or not."""
    log("0", "c")
    log("2.compact", "a")
    assert files(root) == ["a"]
    log("3", "k=x%2F1 #/b")
    log("4", "a", action="delete")
    assert files(root) == ["k=x%2F1 #/b"]


def test_some_directories_are_held_against_the_log_too(root: Path, log: Log) -> None:
    """What was not listed is not missed."""
    log("0", "a", "k=x%2F1 #/b")
    assert files(root, lambda _: False) == ["a"]
    assert files(root, {"k=x%2F1 #"}.__contains__) == ["a", "k=x%2F1 #/b"]


def test_files_of_no_bytes_are_not_missed(root: Path, log: Log) -> None:
    """They hold no rows, and are not listed."""
    (root / "empty").touch()
    log("0", "a", "empty", size=0)
    assert files(root) == ["a"]


def test_a_whole_bucket_is_a_table(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The paths in its log have nothing before their first slash."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET_KEY)
    bucket = s3_server.create(tmp_path.name.replace("_", "-"))
    location = f"s3://{bucket.config['bucket']}"
    for name in ("a", "k=1/b", "left over"):
        bucket.put(name, b"data")
    entries = [{"path": f"{location}/{name}", "size": 4, "action": "add"} for name in ("a", "k=1/b")]
    bucket.put("_spark_metadata/0", "\n".join(["v1", *map(json.dumps, entries)]).encode())
    options = {"endpoint_override": s3_server.endpoint.removeprefix("http://"), "scheme": "http"}
    found = SourceTable(TableInfo("s3", "default", "all"), location, options=options).files()
    assert [file.path for file in found] == [f"{location}/a", f"{location}/k=1/b"]


def test_a_log_below_the_table_says_nothing(root: Path, log: Log) -> None:
    """Spark asks for the one in the directory that it is given."""
    log("0", "a")
    assert files(root.parent) == ["my table/a", "my table/c", "my table/k=x%2F1 #/b"]


@pytest.mark.parametrize(
    ("batch", "content", "error", "told"),
    [
        ("1", "v1", FormatError, "lacks batch 0"),
        ("0", "v2", FormatError, "version v1"),
        ("0", "", FormatError, "0 is no batch"),
        ("0", "v1\n{", FormatError, "0 is no batch"),
        ("0", "v1\n[]", FormatError, "0 is no batch"),
        ("0", "v1\n{}", FormatError, "0 is no batch"),
        ("0", 'v1\n{"path": "file:///elsewhere/a", "size": 4}', InvalidRequestError, "/elsewhere/a.*moved"),
        ("0", 'v1\n{"path": "file://TABLE/gone", "size": 4}', NotFoundError, "gone"),
    ],
)
def test_a_log_that_cannot_be_followed_is_an_error(
    root: Path, batch: str, content: str, error: type[MetastoreError], told: str
) -> None:
    """Guessing would give rows that Spark does not have, or lose some."""
    (root / "_spark_metadata").mkdir()
    (root / "_spark_metadata" / batch).write_text(content.replace("TABLE", str(root)))
    with pytest.raises(error, match=told):
        files(root)
