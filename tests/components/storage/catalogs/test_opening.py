"""A catalog is opened as it is configured, or it is said why not; its files are durable and its secrets unseen."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table import Table

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.errors import ConfigError, FormatError, StorageError
from metastore.lake.iceberg.catalogs.catalog_entry import CatalogEntry
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
OpenMetastore = Callable[..., Metastore]
ALL = MetadataType.ALL
SECRET = "open/ses@me"


def on(folder: Path, **catalog: str) -> Metastore:
    """A metastore in ``folder`` with these keys of ``drill.metastore.iceberg.catalog``; nothing is opened yet."""
    location = {"base_path": str(folder), "relative_path": "m"}
    keys = {"location": location, "catalog": catalog}
    return Metastore.open(Settings.from_mapping({"drill.metastore.iceberg": keys}, environ={}))


def test_the_default_is_the_file_system(tmp_path: Path) -> None:
    """The table is named by its folder there; the namespace is made of the cluster's name."""
    catalog = on(tmp_path).settings.iceberg.catalog
    assert (catalog.type, catalog.namespace, catalog.properties) == ("filesystem", ("drill_metastore",), {})


def test_an_unknown_type_is_refused() -> None:
    """The error names the key, the value, and what is known."""
    keys = {"drill.metastore.iceberg.catalog.type": "nessie"}
    with pytest.raises(
        ConfigError, match=r'iceberg\.catalog\.type = "nessie": one of filesystem, sql, rest, hive, .*memory'
    ):
        Settings.from_mapping(keys, environ={})


@pytest.mark.parametrize("kind", ["dynamodb", "bigquery"])
def test_a_catalog_that_takes_no_commits_is_refused(tmp_path: Path, unit: MakeUnit, kind: str) -> None:
    """Before anything is written: PyIceberg would make the table, and then not commit to it."""
    with pytest.raises(ConfigError, match=f"catalog.type = {kind}: PyIceberg cannot commit"):
        on(tmp_path, type=kind).tables.modify().overwrite([unit("a")]).execute()
    assert list(tmp_path.rglob("*.*")) == []


@pytest.mark.parametrize("kind", ["hive", "glue"])
def test_levels_that_a_catalog_does_not_have_are_refused(tmp_path: Path, kind: str) -> None:
    """Its databases are in no other."""
    metastore = on(tmp_path, type=kind, namespace="a.b")
    with pytest.raises(ConfigError, match=f"namespace = a.b: a {kind} catalog has namespaces of one level"):
        metastore.tables.metadata.history()


def test_a_number_that_is_none_is_named(tmp_path: Path) -> None:
    """AWS's client is given numbers, not their texts."""
    metastore = on(tmp_path, type="glue", **{'"glue.max-retries"': "few", '"glue.region"': "us-east-1"})
    with pytest.raises(ConfigError, match=r"catalog\.glue\.max-retries = few: a whole number"):
        metastore.tables.metadata.history()


@pytest.mark.parametrize("namespace", ["", "a..b", ".a"])
def test_a_namespace_has_names(namespace: str) -> None:
    """With dots between them."""
    with pytest.raises(ConfigError, match=r"iceberg\.catalog\.namespace = .*names with dots"):
        Settings.from_mapping({"drill.metastore.iceberg.catalog.namespace": namespace}, environ={})


def test_a_missing_property_is_named(tmp_path: Path) -> None:
    """When the catalog is first used: to open the metastore asks nothing of it."""
    metastore = on(tmp_path, type="hive")
    with pytest.raises(ConfigError, match=r"drill\.metastore\.iceberg\.catalog of type hive .*uri"):
        metastore.tables.metadata.history()


def test_a_missing_library_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that brings it."""
    monkeypatch.setitem(__import__("sys").modules, "psycopg2", None)
    metastore = on(tmp_path, type="sql", uri="postgresql+psycopg2://127.0.0.1:1/x")
    with pytest.raises(ConfigError, match=r"pip install 'lake-metastore\[postgres\]'"):
        metastore.tables.metadata.history()


@pytest.mark.parametrize(
    "uri", [f"postgresql://me:{SECRET}@127.0.0.1:1/x", f"postgresql://127.0.0.1:1/x?user=me&password={SECRET}"]
)
def test_a_password_is_seen_nowhere(tmp_path: Path, uri: str) -> None:
    """Not in the settings, not in an error, whatever characters it has."""
    metastore = on(tmp_path, type="sql", uri=uri, **{'"header.Authorization"': f"Bearer {SECRET}"})
    with pytest.raises((StorageError, ConfigError)) as caught:
        metastore.tables.metadata.history()
    texts = [caught.value, metastore.settings, metastore.settings.explain(), metastore._catalog, metastore]
    for text in map(repr, texts):
        assert SECRET not in text
        assert "ses@me" not in text
    assert metastore.settings.iceberg.catalog.properties["uri"] == uri


def test_a_catalog_in_memory_is_one_for_all_threads(tmp_path: Path, unit: MakeUnit) -> None:
    """The expiration's thread sees the tables too; with the metastore it ends."""
    with on(tmp_path, type="in-memory") as metastore:
        metastore.tables.modify().overwrite([unit("a")]).execute()
        metastore.tables.modify().overwrite([unit("b")]).execute()
        metastore.tables.expiration_worker.join()
        assert metastore.tables.expiration_worker.failures == 0
        assert len(metastore.tables.read().metadata_types(ALL).execute()) == 2
    with on(tmp_path, type="in-memory") as later:
        assert later.tables.metadata.history() == []


def test_metastores_do_not_share_a_table_by_accident(
    kind: str, open_metastore: OpenMetastore, unit: MakeUnit, tmp_path: Path
) -> None:
    """The same namespace for another base location is refused, but for a REST server, which places tables itself."""
    open_metastore().tables.modify().overwrite([unit("a")]).execute()
    other = open_metastore(location={"base_path": str(tmp_path), "relative_path": "other"})
    if kind == "rest":
        assert len(other.tables.read().metadata_types(ALL).execute()) == 1
        return
    with pytest.raises(ConfigError, match="catalog.namespace"):
        other.tables.read().metadata_types(ALL).execute()


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["hive"], indirect=True)
def test_a_hive_table_is_no_component(open_metastore: OpenMetastore, unit: MakeUnit) -> None:
    """What stands at the component's name and is not Iceberg's is neither read nor replaced."""
    metastore = open_metastore()
    entry = metastore.tables._backing.table.entry
    metastore.tables.initialize()
    catalog: Any = entry.catalog
    with entry.source.turn, catalog._client as client:
        table = client.get_table(dbname=entry.identifier[0], tbl_name="tables")
        table.parameters.pop("table_type")
        client.alter_table(entry.identifier[0], "tables", table)
    with pytest.raises(FormatError, match="not an Iceberg table"):
        metastore.tables.modify().overwrite([unit("a")]).execute()


@pytest.mark.parametrize("files", [None, "pyiceberg.io.pyarrow.PyArrowFileIO"], ids=["ours", "Arrow's"])
@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_local_files_are_durable_before_the_commit(
    open_metastore: OpenMetastore, unit: MakeUnit, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: str | None
) -> None:
    """Data, manifests and lists, whoever writes them; with our FileIO the version's metadata before its pointer."""
    metastore = open_metastore(**({"config": {"properties": {"py-io-impl": files}}} if files else {}))
    metastore.tables.initialize()
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    flushed: set[Path] = set()
    at_commit: set[Path] = set()
    fsync, commit = os.fsync, CatalogEntry.commit

    def noting(descriptor: int) -> None:
        flushed.add(Path(os.readlink(f"/proc/self/fd/{descriptor}")))
        fsync(descriptor)

    def committing(entry: CatalogEntry, table: Table, *arguments: Any) -> object:
        at_commit.update(flushed)
        return commit(entry, table, *arguments)

    monkeypatch.setattr(os, "fsync", noting)
    monkeypatch.setattr(CatalogEntry, "commit", committing)
    metastore.tables.modify().overwrite([unit("a")]).execute()
    written = {path for path in tmp_path.rglob("*") if path.is_file()} - before
    metadata = {path for path in written if path.name.endswith(".metadata.json")}
    assert len(written) == 4
    assert written - metadata <= at_commit
    assert {path.parent for path in written - metadata} <= at_commit
    assert (metadata <= flushed) is (files is None)
    assert metastore.tables.read().metadata_types(ALL).execute() == [unit("a")]
