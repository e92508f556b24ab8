"""A folder without files is there on an object store, as on a disk: what was created as a schema takes tables."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from metastore.config.settings import Settings
from metastore.errors import InvalidRequestError
from metastore.lake.stores.objects.object_store import ObjectPointers
from metastore.lake.stores.pointer_store import Entries
from metastore.session import Session, connect


@pytest.fixture
def session(root: str, pyiceberg_properties: dict[str, str], tmp_path: Path) -> Iterator[Session]:
    """A session with the catalog ``lake`` of folders in the bucket."""
    quoted = {f'"{key}"': value for key, value in pyiceberg_properties.items()}
    lake = {"type": "filesystem", "warehouse": f"{root}/lake", **quoted}
    given = {"iceberg.location.base_path": str(tmp_path), "catalogs.lake": lake}
    with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as opened:
        yield opened


def test_a_schema_is_there_from_its_creation_on(session: Session) -> None:
    """It is listed, is not created twice, and takes a table; the object that shows it is no table of it."""
    session.sql("CREATE SCHEMA lake.db")
    assert session.sql("SHOW SCHEMAS FROM lake").to_pylist() == [{"SCHEMA_NAME": "lake.db"}]
    with pytest.raises(InvalidRequestError, match="schema lake.db exists already"):
        session.sql("CREATE SCHEMA lake.db")
    session.sql("CREATE TABLE lake.db.t (id BIGINT)")
    session.sql("INSERT INTO lake.db.t VALUES (7)")
    assert session.sql("SELECT id FROM lake.db.t").to_pylist() == [{"id": 7}]
    assert [row["TABLE_NAME"] for row in session.sql("SHOW TABLES FROM lake.db").to_pylist()] == ["t"]


def test_an_empty_folder_is_made_and_removed(pointers: ObjectPointers, root: str) -> None:
    """It is listed empty, goes if it is empty, and stays if something is below it."""
    folder = f"{root}/above/empty"
    with pytest.raises(FileNotFoundError):
        pointers.entries(folder)
    pointers.make_folder(folder)
    pointers.make_folder(folder)
    assert pointers.entries(folder) == Entries(frozenset(), frozenset())
    assert pointers.entries(f"{root}/above") == Entries(frozenset(), frozenset({"empty"}))
    pointers.create_if_absent(f"{folder}/below/file", b"1")
    with pytest.raises(OSError, match="is not empty") as refused:
        pointers.remove_folder(folder)
    assert refused.value.errno == errno.ENOTEMPTY
    pointers.remove(f"{folder}/below/file")
    pointers.remove_folder(folder)
    with pytest.raises(FileNotFoundError):
        pointers.remove_folder(folder)
