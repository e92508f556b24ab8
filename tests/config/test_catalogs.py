"""Catalogs of others in the configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from metastore.config import CatalogSettings, load_text
from metastore.errors import ConfigError


def test_none_by_default() -> None:
    """Nothing is shipped."""
    assert load_text("").catalogs == {}


def test_a_kind_and_its_properties() -> None:
    """All other keys are PyIceberg's; the name is by default the key, and one set to null is gone."""
    settings = load_text(
        """drill.metastore.catalogs {
          lake { type = sql, uri = "postgresql://u:secret@host/db", "s3.endpoint" = "http://x", pool = null }
          other { type = rest, name = prod, uri = "http://rest" }
          gone = null
        }"""
    )
    assert settings.catalogs == {
        "lake": CatalogSettings("sql", "lake", (), {"uri": "postgresql://u:secret@host/db", "s3.endpoint": "http://x"}),
        "other": CatalogSettings("rest", "prod", (), {"uri": "http://rest"}),
    }
    assert settings.warnings == ()
    assert "secret" not in repr((settings, settings.explain()))


def test_a_folder_is_absolute(tmp_path: Path) -> None:
    """A relative warehouse is taken from the working directory, a URI stays as it is."""
    text = """drill.metastore.catalogs {
      here { type = filesystem, warehouse = data }, there { type = filesystem, warehouse = "s3://bucket/x" }
    }"""
    catalogs = load_text(text, cwd=tmp_path).catalogs
    assert catalogs["here"].properties == {"warehouse": f"{tmp_path}/data"}
    assert catalogs["there"].properties == {"warehouse": "s3://bucket/x"}


@pytest.mark.parametrize(
    ("catalogs", "said"),
    {
        "{ Metastore { type = sql } }": "drill.metastore.catalogs.Metastore = .*: this name is taken",
        '{ "a-b" { type = sql } }': "drill.metastore.catalogs.a-b = .*: a catalog's name is letters, digits",
        "{ 1a { type = sql } }": "a catalog's name is letters, digits and underscores",
        "{ a { type = sql }, A { type = sql } }": "the catalog A differs only in case",
        "{ a { type = oracle } }": 'drill.metastore.catalogs.a.type = "oracle": one of filesystem, sql, ',
        "{ a { uri = x } }": "drill.metastore.catalogs.a.type is missing",
        "{ a { type = filesystem } }": "drill.metastore.catalogs.a.warehouse is missing",
        "{ a = sql }": "drill.metastore.catalogs.a = .*: an object is expected",
        '{ a { type = hive, uri = "foo" } }': 'catalogs.a.uri = "foo": an address such as thrift://host:9083 is exp',
        '{ a { type = hive, uri = "thrift://localhost:abc" } }': "catalogs.a.uri = .*: an address",
        '{ a { type = hive, uri = "thrift://localhost" } }': "catalogs.a.uri = .*: an address",
        '{ a { type = hive, uri = "thrift://one:9083,two" } }': "catalogs.a.uri = .*: an address",
        "sql": "drill.metastore.catalogs = .*: an object is expected",
    }.items(),
)
def test_refusals(catalogs: str, said: str) -> None:
    """Each names its key."""
    with pytest.raises(ConfigError, match=said):
        load_text(f"drill.metastore.catalogs = {catalogs}")


def test_addresses_of_hive_metastores() -> None:
    """Those that its clients take; each is checked where it stands, with its file."""
    several = "thrift://one:9083,thrift://two:9083"
    assert load_text(f'drill.metastore.catalogs.a {{ type = hive, uri = "{several}" }}').catalogs["a"].properties == {
        "uri": several
    }
    for place in ("iceberg.catalog", "storage.h"):
        with pytest.raises(ConfigError, match=rf'{place}\.uri = "http://h:1": an address'):
            load_text(f'drill.metastore.{place} {{ type = hive, uri = "http://h:1" }}')
