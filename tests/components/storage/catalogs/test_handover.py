"""A metastore goes to another catalog whole, once, and the catalog that it came from is closed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.table import Table

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.errors import ConfigError, InvalidRequestError, NotFoundError
from metastore.lake.iceberg.catalogs.catalog_entry import CatalogEntry
from metastore.lake.iceberg.catalogs.catalogs import ConfiguredCatalog
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
OpenMetastore = Callable[..., Metastore]
ALL = MetadataType.ALL


@pytest.fixture
def plain(open_metastore: OpenMetastore, unit: MakeUnit) -> Metastore:
    """The metastore on the file system, with two versions."""
    metastore = open_metastore(catalog={"type": "filesystem"})
    for name in ("a", "b"):
        metastore.tables.modify().overwrite([unit(name)]).execute()
    return metastore


def names(metastore: Metastore) -> list[str]:
    """Tables that the metastore knows."""
    return sorted(unit.table_name or "" for unit in metastore.tables.read().metadata_types(ALL).execute())


def test_history_and_rows_go_with_it(plain: Metastore, open_metastore: OpenMetastore, unit: MakeUnit) -> None:
    """Every version is there, reads as it did, and the next one follows; expiration works on."""
    history = plain.tables.metadata.history()
    metastore = open_metastore()
    [done] = metastore.register()
    assert done.version == history[0].version
    assert metastore.tables.metadata.history() == history
    assert metastore.tables.read().metadata_types(ALL).at(history[1].version).execute() == [unit("a")]
    metastore.tables.modify().overwrite([unit("c")]).execute()
    metastore.tables.expiration.expire()
    assert names(open_metastore()) == ["a", "b", "c"]


def test_a_catalog_without_the_table_of_its_folder_is_refused(
    plain: Metastore, open_metastore: OpenMetastore, unit: MakeUnit
) -> None:
    """It was configured and nothing registered: a second, empty table would take the first one's files for orphans."""
    metastore = open_metastore()
    for use in (
        lambda: names(metastore),
        metastore.tables.modify().overwrite([unit("c")]).execute,
        metastore.tables.expiration.expire,
    ):
        with pytest.raises(ConfigError, match=r"has no table .*/v3\.metadata\.json\. .*`metastore register`"):
            use()
    assert names(plain) == ["a", "b"]
    metastore.register()
    assert names(metastore) == ["a", "b"]


def test_a_catalog_that_lost_its_table_is_refused(open_metastore: OpenMetastore, unit: MakeUnit) -> None:
    """Until its newest metadata file is registered."""
    metastore = open_metastore()
    metastore.tables.modify().overwrite([unit("a")]).execute()
    catalog, table = metastore._catalog.catalog, metastore.tables.table.load()
    assert table is not None
    catalog.drop_table(table.name())
    for use in (lambda: names(metastore), metastore.tables.modify().overwrite([unit("b")]).execute):
        with pytest.raises(ConfigError, match="has no table .* register the newest metadata file"):
            use()
    catalog.register_table(table.name(), table.metadata_location)
    assert names(metastore) == ["a"]


def test_a_creation_that_died_is_in_nobodys_way(
    plain: Metastore, open_metastore: OpenMetastore, unit: MakeUnit, tmp_path: Path
) -> None:
    """It leaves metadata of no commit, and no entry."""
    old = plain.tables.table.load()
    assert old is not None
    elsewhere = {"base_path": str(tmp_path), "relative_path": "elsewhere"}
    metastore = open_metastore(location=elsewhere)
    dead = metastore.tables.table.entry.create(old.schema(), old.spec(), {})
    metastore._catalog.catalog.drop_table(dead.name())
    again = open_metastore(location=elsewhere)
    assert names(again) == []
    again.tables.modify().overwrite([unit("a")]).execute()
    assert names(again) == ["a"]


def test_an_unused_folder_is_looked_at_once_and_before_the_table_is_made(
    open_metastore: OpenMetastore, unit: MakeUnit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each look is a listing, and nearly every statement asks for views, which few metastores have."""
    looks, traces = [], CatalogEntry.traces

    def seen(entry: CatalogEntry) -> str | None:
        looks.append(entry)
        return traces(entry)

    monkeypatch.setattr(CatalogEntry, "traces", seen)
    metastore = open_metastore()
    assert [names(metastore) for _ in range(3)] == [[], [], []]
    assert len(looks) == 1
    metastore.tables.modify().overwrite([unit("a")]).execute()
    assert len(looks) == 2
    assert names(metastore) == ["a"]
    assert len(looks) == 2


def test_a_table_that_is_made_between_two_looks_is_found(
    open_metastore: OpenMetastore, unit: MakeUnit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its metadata is in the folder then, and the first look at the catalog came too early."""
    open_metastore().tables.modify().overwrite([unit("a")]).execute()
    load, looks = CatalogEntry.load, []

    def too_early_at_first(entry: CatalogEntry, *, to_commit: bool = False) -> Table | None:
        looks.append(entry)
        return None if len(looks) == 1 else load(entry, to_commit=to_commit)

    monkeypatch.setattr(CatalogEntry, "load", too_early_at_first)
    assert names(open_metastore()) == ["a"]


def test_who_still_uses_the_old_catalog_is_refused(
    plain: Metastore, open_metastore: OpenMetastore, unit: MakeUnit
) -> None:
    """Readers, writers and expiration, those already open and new ones; the error names where the table is."""
    metastore = open_metastore()
    metastore.register()
    for old in (plain, open_metastore(catalog={"type": "filesystem"})):
        for use in (
            lambda: names(old),  # noqa: B023 - used in this turn
            old.tables.modify().overwrite([unit("late")]).execute,
            old.tables.expiration.expire,
        ):
            with pytest.raises(ConfigError, match=f"handed over .* to {re.escape(str(metastore._catalog))}"):
                use()
    assert names(metastore) == ["a", "b"]


@pytest.mark.usefixtures("plain")
def test_it_goes_once(open_metastore: OpenMetastore) -> None:
    """A catalog that has the table already, registered or made there, takes no other."""
    open_metastore().register()
    with pytest.raises(InvalidRequestError, match="has a table .* already"):
        open_metastore().register()


def test_a_table_that_stands_there_is_not_replaced(plain: Metastore, open_metastore: OpenMetastore) -> None:
    """Nothing is changed on either side."""
    metastore, old = open_metastore(), plain.tables.table.load()
    assert old is not None
    there = metastore.tables.table.entry.create(old.schema(), old.spec(), {})
    with pytest.raises(InvalidRequestError, match="has a table .* already"):
        metastore.register()
    assert there.refresh().metadata == there.metadata
    assert names(plain) == ["a", "b"]


@pytest.mark.parametrize("step", ["register", "commit"])
def test_an_interrupted_call_is_completed_by_the_next(
    plain: Metastore, open_metastore: OpenMetastore, unit: MakeUnit, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whether the table was registered already or not: in between nobody can write, afterwards all is there."""
    metastore = open_metastore()
    inner, target = getattr(CatalogEntry, step), metastore._catalog

    def killed(entry: CatalogEntry, *arguments: object) -> object:
        if entry.source is target:
            raise KeyboardInterrupt
        return inner(entry, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(CatalogEntry, step, killed)
        with pytest.raises(KeyboardInterrupt):
            metastore.register()
    with pytest.raises(ConfigError, match="handed over"):
        plain.tables.modify().overwrite([unit("late")]).execute()
    if step == "commit":
        with pytest.raises(ConfigError, match="handed over"):
            metastore.tables.modify().overwrite([unit("early")]).execute()
    metastore.register()
    metastore.tables.modify().overwrite([unit("c")]).execute()
    assert names(metastore) == ["a", "b", "c"]


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
class TestNothingIsChangedWhen:
    def test_there_is_nothing_to_register(self, open_metastore: OpenMetastore) -> None:
        """The error names where it was looked for."""
        with pytest.raises(NotFoundError, match="no component table in the file system at"):
            open_metastore().register()

    def test_the_target_is_the_file_system(self, plain: Metastore) -> None:
        """There the folder names the table."""
        with pytest.raises(InvalidRequestError, match="configure the catalog"):
            plain.register()
        assert names(plain) == ["a", "b"]

    def test_the_files_lie_elsewhere(self, plain: Metastore, open_metastore: OpenMetastore, tmp_path: Path) -> None:
        """A catalog's metastore has its tables below its own base location."""
        elsewhere = open_metastore(location={"base_path": str(tmp_path), "relative_path": "elsewhere"})
        with pytest.raises(ConfigError, match="lies at"):
            elsewhere.register(plain.settings)
        assert names(plain) == ["a", "b"]

    def test_the_catalog_could_not_read_its_files(self, plain: Metastore, open_metastore: OpenMetastore) -> None:
        """As it is configured; no entry is made that nobody could open."""
        broken = open_metastore(config={"properties": {"py-io-impl": "no.such.FileIO"}})
        with pytest.raises(ConfigError, match="no.such.FileIO"):
            broken.register(plain.settings)
        assert names(plain) == ["a", "b"]


@pytest.mark.parametrize("kind", ["sqlite"], indirect=True)
def test_a_catalog_of_the_same_name_elsewhere_is_another(
    plain: Metastore, open_metastore: OpenMetastore, catalog_keys: dict[str, str], tmp_path: Path
) -> None:
    """Two owners of one table would each lose what the other commits. The error tells them apart."""
    first = open_metastore()
    first.register()
    place = f"sqlite:///{tmp_path}/other.db"
    second = open_metastore(catalog={**catalog_keys, "uri": place})
    assert str(second._catalog).endswith(f" of the sql catalog metastore at {place}")
    with pytest.raises(InvalidRequestError, match=f"handed over to {re.escape(str(first._catalog))}"):
        second.register(plain.settings)
    with pytest.raises(ConfigError, match=f"{re.escape(str(second._catalog))} has no table"):
        names(second)
    assert second.register(first.settings)
    with pytest.raises(ConfigError, match=re.escape(f"from {first._catalog} to {second._catalog}")):
        names(first)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"type": "sql", "uri": "postgresql://me:p@ss/w@host:5432/db?password=x"}, "at postgresql://host:5432/db"),
        ({"type": "hive", "uri": "thrift://a:9083,thrift://b:9083"}, "at thrift://a:9083,thrift://b:9083"),
        ({"type": "rest", "uri": "https://host/v1", "warehouse": "w", "token": "x"}, "at https://host/v1, warehouse w"),
        ({"type": "glue"}, "the glue catalog metastore"),
    ],
)
def test_a_catalog_is_named_by_its_address_without_secrets(keys: dict[str, str], named: str) -> None:
    """In messages, and in the properties of a table that was handed over to it."""
    iceberg = {"location": {"base_path": "/lake"}, "catalog": keys}
    settings = Settings.from_mapping({"drill": {"metastore": {"iceberg": iceberg}}}, environ={})
    assert str(ConfiguredCatalog(settings.iceberg)).endswith(named)


@pytest.mark.usefixtures("plain")
def test_from_one_catalog_to_another(
    open_metastore: OpenMetastore, settings: Callable[..., Settings], catalog_keys: dict[str, str]
) -> None:
    """By the settings that were in use; here from one namespace into another."""
    open_metastore().register()
    first = settings()
    second = open_metastore(catalog={**catalog_keys, "namespace": f"{catalog_keys['namespace']}_2"})
    assert [done.source for done in second.register(first)] == [str(open_metastore()._catalog)]
    assert names(second) == ["a", "b"]
    with pytest.raises(ConfigError, match="handed over"):
        names(open_metastore())
