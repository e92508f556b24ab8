"""An expiration on a store that fails, and on metadata that names what it should not: typed errors, and no harm."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from pyiceberg.io import InputStream

from metastore.components.expiration.handler import ExpirationHandler
from metastore.components.metastore import Metastore
from metastore.errors import FormatError, StorageError
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.lake.stores.local import LocalFile
from metastore.lake.stores.pointer_store import LocalPointers
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
OpenMetastore = Callable[..., Metastore]


@pytest.fixture
def three(open_metastore: OpenMetastore, unit: MakeUnit) -> Metastore:
    """Three versions of one table."""
    metastore = open_metastore()
    for owner in "123":
        metastore.tables.modify().overwrite([unit(owner=owner)]).execute()
    return open_metastore()


def test_a_file_that_cannot_be_read(three: Metastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Marking fails: the error is ours, and nothing was changed."""
    real = LocalFile.open

    def broken(file: LocalFile, seekable: bool = True) -> InputStream:
        if file.location.endswith(".avro"):
            raise OSError(5, "Input/output error")
        return real(file, seekable)

    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    with monkeypatch.context() as patch:
        patch.setattr(LocalFile, "open", broken)
        with pytest.raises(
            StorageError, match=r"cannot determine which files .* Input/output error; nothing was changed"
        ):
            three.tables.expiration.expire()
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == before
    assert len(three.tables.expiration.expire().versions) == 2


def test_a_folder_that_cannot_be_listed(three: Metastore, monkeypatch: pytest.MonkeyPatch) -> None:
    """Old version files stay, which is told as any file that would not go is; the next run deletes them."""

    def broken(*_: Any) -> Any:
        raise OSError(5, "Input/output error")

    assert three.tables.metadata.history()  # a first look lists the folder, too
    with monkeypatch.context() as patch:
        patch.setattr(LocalPointers, "files_after", broken)
        expired = three.tables.expiration.expire()
    assert (expired.version_files, [error for _, error in expired.failed]) == (0, ["[Errno 5] Input/output error"])
    assert three.tables.expiration.expire().version_files > 0


def test_a_version_file_to_sweep_from_that_is_damaged(
    three: Metastore, open_metastore: OpenMetastore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is named; a run that died before its sweep had left it."""
    with monkeypatch.context() as patch:
        patch.setattr(ExpirationHandler, "_sweep", lambda *_: None)
        three.tables.expiration.expire()
    folder = tmp_path / "metastore/tables/metadata"
    [newest] = sorted(folder.glob("v*.metadata.json"))[-1:]
    damaged = sorted(folder.glob("v*.metadata.json"))[-2]
    assert newest != damaged
    damaged.write_text("{}")
    with pytest.raises(FormatError, match=damaged.name):
        open_metastore().tables.expiration.expire()


@pytest.mark.usefixtures("three")
def test_files_of_others_that_metadata_names_stay(
    open_metastore: OpenMetastore,
    unit: MakeUnit,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A manifest names a file outside the component, and one behind a link: both outlive the version that had them."""
    component = tmp_path / "metastore/tables"
    [data] = {Path(task.file.file_path) for task in _table(tmp_path).scan().plan_files()}
    rows = pq.read_table(data, partitioning=None)
    (tmp_path / "outside").mkdir()
    (component / "link").symlink_to(tmp_path / "outside")
    theirs = [tmp_path / "outside/a.parquet", component / "link/b.parquet"]
    for path in theirs:
        pq.write_table(rows, path)
    _table(tmp_path).add_files([str(path) for path in theirs])
    metastore = open_metastore()
    assert len(metastore.tables.read().metadata_types(MetadataType.ALL).execute()) == 3
    metastore.tables.modify().overwrite([unit(owner="new")]).execute()
    caplog.set_level(logging.WARNING)
    assert metastore.tables.expiration.expire().failed == ()
    assert [path.exists() for path in (*theirs, data)] == [True, True, False]
    assert all(f"{path} is not below the table" in caplog.text for path in theirs)
    assert len(metastore.tables.read().metadata_types(MetadataType.ALL).execute()) == 1


def _table(folder: Path) -> Any:
    return FileSystemCatalog("other", str(folder / "metastore")).load_table("tables")
