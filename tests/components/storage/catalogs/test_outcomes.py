"""What becomes of a commit when the catalog's answer, or the request, is lost on the way, or others hold its locks."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from sqlalchemy import create_engine, text
from support.wire import Wire

from metastore.components.metastore import Metastore
from metastore.errors import ConflictError, OutcomeUnknownError, StorageError
from metastore.lake.iceberg.catalogs import catalogs
from metastore.lake.stores.local import make_durable
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
OpenMetastore = Callable[..., Metastore]

COMMIT = {
    "postgres": b"COMMIT",
    "hive": b"alter_table_with_environment_context",
    "rest": b"POST /v1/namespaces/",
    "glue": b"AWSGlue.UpdateTable",
}
"""What stands in the request that publishes, by kind of catalog."""

WITHOUT_REPETITION = ["hive", *(pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("postgres", "rest"))]
SERVERS = [*WITHOUT_REPETITION, pytest.param("glue", marks=pytest.mark.glue)]
"""AWS's client, for Glue, sends a request again by itself when no answer comes."""

ALL = MetadataType.ALL


@pytest.fixture
def wire(catalog_keys: dict[str, str]) -> Iterator[Wire]:
    """The line between the metastore and its catalog's server."""
    address = next(key for key in ("uri", "glue.endpoint") if key in catalog_keys)
    parts = urlsplit(catalog_keys[address])
    assert parts.hostname
    assert parts.port
    wire = Wire((parts.hostname, parts.port))
    catalog_keys[address] = catalog_keys[address].replace(f":{parts.port}", f":{wire.port}")
    yield wire
    wire.close()


def files_of(folder: Path) -> set[Path]:
    """Every data file below ``folder``."""
    return set(folder.rglob("*.parquet"))


@pytest.mark.integration
@pytest.mark.parametrize("kind", SERVERS, indirect=True)
def test_a_commit_whose_answer_was_lost_has_landed_once(
    wire: Wire, kind: str, open_metastore: OpenMetastore, unit: MakeUnit
) -> None:
    """The metadata tells; the caller sees no error, and the version is there once."""
    metastore = open_metastore()
    metastore.tables.initialize()
    wire.cut = (COMMIT[kind], "answer")
    version = metastore.tables.modify().overwrite([unit("a")]).execute()
    assert wire.cut is None
    assert [each.version for each in metastore.tables.metadata.history()] == [version]
    assert [each.table_name for each in metastore.tables.read().metadata_types(ALL).execute()] == ["a"]


@pytest.mark.integration
@pytest.mark.parametrize("kind", WITHOUT_REPETITION, indirect=True)
def test_a_commit_whose_request_was_lost_is_open_and_its_files_stay(
    wire: Wire, kind: str, open_metastore: OpenMetastore, unit: MakeUnit, tmp_path: Path
) -> None:
    """Nobody can say that it will not land yet: the caller is told so, and nothing that it would need is deleted."""
    metastore = open_metastore()
    metastore.tables.initialize()
    wire.cut = (COMMIT[kind], "request")
    with pytest.raises(OutcomeUnknownError, match="unknown whether it landed"):
        metastore.tables.modify().overwrite([unit("a")]).execute()
    assert wire.cut is None
    assert len(files_of(tmp_path)) == 1
    assert metastore.tables.read().metadata_types(ALL).execute() == []


@pytest.mark.integration
@pytest.mark.parametrize("kind", [pytest.param("glue", marks=pytest.mark.glue)], indirect=True)
def test_a_commit_whose_request_was_lost_is_sent_again(
    wire: Wire, kind: str, open_metastore: OpenMetastore, unit: MakeUnit
) -> None:
    """By a client that does so by itself: it has landed once."""
    metastore = open_metastore()
    metastore.tables.initialize()
    wire.cut = (COMMIT[kind], "request")
    version = metastore.tables.modify().overwrite([unit("a")]).execute()
    assert wire.cut is None
    assert [each.version for each in metastore.tables.metadata.history()] == [version]


@pytest.mark.integration
@pytest.mark.parametrize("kind", [pytest.param("glue", marks=pytest.mark.glue)], indirect=True)
def test_a_repeated_commit_that_lost_to_others_is_made_on_theirs(
    wire: Wire, kind: str, open_metastore: OpenMetastore, unit: MakeUnit
) -> None:
    """The request is lost, others commit, the repetition is refused: the metadata shows that ours did not land."""
    metastore, other = open_metastore(), open_metastore()
    metastore.tables.initialize()

    def others_commit() -> None:
        other.tables.modify().overwrite([unit("b")]).execute()

    wire.cut, wire.meanwhile = (COMMIT[kind], "request"), others_commit
    metastore.tables.modify().overwrite([unit("a")]).execute()
    assert {each.table_name for each in metastore.tables.read().metadata_types(ALL).execute()} == {"a", "b"}
    assert len(metastore.tables.metadata.history()) == 2


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_locked_sqlite_database_is_waited_for(
    open_metastore: OpenMetastore, unit: MakeUnit, catalog_keys: dict[str, str], tmp_path: Path
) -> None:
    """Somebody else writes: certainly not committed, tried again, and given up in time without a trace."""
    path = catalog_keys["uri"].removeprefix("sqlite:///")
    catalog_keys["uri"] += "?timeout=0.01"
    metastore = open_metastore(commit={"timeout": "2 seconds"})
    metastore.tables.initialize()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(ConflictError):
        metastore.tables.modify().overwrite([unit("a")]).execute()
    assert files_of(tmp_path) == set()
    other.execute("ROLLBACK")
    other.close()
    metastore.tables.modify().overwrite([unit("a")]).execute()
    assert len(metastore.tables.metadata.history()) == 1


@pytest.mark.integration
@pytest.mark.parametrize("kind", [pytest.param("postgres", marks=pytest.mark.postgres)], indirect=True)
def test_a_lock_in_postgresql_is_waited_for(
    open_metastore: OpenMetastore, unit: MakeUnit, catalog_keys: dict[str, str], tmp_path: Path
) -> None:
    """A statement that got no lock is certainly not committed: tried again, and given up in time without a trace."""
    engine = create_engine(catalog_keys["uri"])
    catalog_keys["uri"] += "?options=-c%20lock_timeout%3D50"
    metastore = open_metastore(commit={"timeout": "2 seconds"})
    metastore.tables.initialize()
    with engine.begin() as connection:
        connection.execute(text("LOCK TABLE iceberg_tables IN EXCLUSIVE MODE"))
        with pytest.raises(ConflictError):
            metastore.tables.modify().overwrite([unit("a")]).execute()
        assert files_of(tmp_path) == set()
    engine.dispose()
    metastore.tables.modify().overwrite([unit("a")]).execute()
    assert len(metastore.tables.metadata.history()) == 1


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_refused_commit_changes_nothing_and_says_why(
    open_metastore: OpenMetastore, unit: MakeUnit, catalog_keys: dict[str, str], tmp_path: Path
) -> None:
    """The database says no for good: not tried again, and what was written for it is gone."""
    metastore = open_metastore()
    metastore.tables.initialize()
    with sqlite3.connect(catalog_keys["uri"].removeprefix("sqlite:///")) as other:
        other.execute("CREATE TRIGGER no BEFORE UPDATE ON iceberg_tables BEGIN SELECT RAISE(ABORT, 'not today'); END")
    other.close()
    with pytest.raises(StorageError, match="refused the commit: not today; nothing was changed"):
        metastore.tables.modify().overwrite([unit("a")]).execute()
    assert files_of(tmp_path) == set()


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_metadata_that_others_expire_before_it_is_flushed_is_a_lost_race(
    open_metastore: OpenMetastore, unit: MakeUnit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two commits and an expiration of theirs take the file of ours, which is older by then: it is tried again."""
    metastore, other = open_metastore(), open_metastore()
    metastore.tables.initialize()
    theirs, gone = ["b", "c"], []

    def slowly(locations: Iterable[str]) -> None:
        wanted = list(locations)
        if theirs and wanted[0].endswith(".metadata.json"):
            names, theirs[:] = list(theirs), []
            for name in names:
                other.tables.modify().overwrite([unit(name)]).execute()
            other.tables.expiration.expire()
            gone.append(not Path(wanted[0]).exists())
        make_durable(wanted)

    monkeypatch.setattr(catalogs, "make_durable", slowly)
    metastore.tables.modify().overwrite([unit("a")]).execute()
    assert gone == [True]
    found = metastore.tables.read().metadata_types(ALL).execute()
    assert sorted(str(each.table_name) for each in found) == ["a", "b", "c"]


@pytest.mark.integration
@pytest.mark.parametrize("kind", SERVERS, indirect=True)
def test_a_server_that_is_away_is_a_storage_error(
    wire: Wire, catalog_keys: dict[str, str], open_metastore: OpenMetastore, unit: MakeUnit
) -> None:
    """For readers and writers, in one line, and without the password."""
    metastore = open_metastore()
    wire._address = ("127.0.0.1", 1)
    password = urlsplit(catalog_keys.get("uri", "")).password
    for work in (metastore.tables.metadata.history, metastore.tables.modify().overwrite([unit("a")]).execute):
        with pytest.raises(StorageError) as caught:
            work()
        assert "\n" not in str(caught.value)
        assert not password or password not in str(caught.value)
