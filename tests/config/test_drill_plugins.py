"""Drill's own file of storage plugins, as it stands in a Drill deployment's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from metastore.config.settings import Settings, load
from metastore.errors import ConfigError

FILE = """
"storage": {
  # as Drill ships it, with Hadoop's keys
  s3: {
    type: "file", connection: "s3a://company-data", enabled: true,
    config: { "fs.s3a.access.key": "AKIAEXAMPLE", "fs.s3a.secret.key": ${SECRET},
      "fs.s3a.endpoint.region": "eu-central-1" }
    workspaces: {
      sales: { location: "/sales", writable: false, defaultInputFormat: "psv", allowAccessOutsideWorkspace: true }
      plain: { location: "/plain", writable: true, defaultInputFormat: null, allowAccessOutsideWorkspace: false }
    }
    formats: {
      psv: { type: "text", extensions: ["tbl"], delimiter: "|", extractHeader: true }
      parquet: { type: "parquet" }
      "httpd": { type: "httpd", logFormat: "common" }
    }
    authMode: "SHARED_USER"
  }
  dfs: { type: "file", connection: "file:///", workspaces: { root: { location: "/srv" } }, formats: null }
  kafka: { type: "kafka", kafkaConsumerProps: { "bootstrap.servers": "x:9092" } }
  warehouse: { type: "hive", enabled: false, configProps: { "hive.metastore.uris": "thrift://hms:9083",
    "fs.s3a.endpoint.region": "eu-west-1" } }
  shop: { type: "jdbc", driver: "org.postgresql.Driver", url: "jdbc:postgresql://db/shop",
    username: "u", password: "open sesame" }
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Drill's folder of configuration."""
    (tmp_path / "storage-plugins-override.conf").write_text(FILE)
    return tmp_path


def read(folder: Path) -> Settings:
    """The settings, with the variable that the file names."""
    return load(folder, environ={"SECRET": "hush hush hush"})


def test_it_is_a_tier(folder: Path) -> None:
    """Plugins, workspaces, formats and Hadoop's keys are those that Drill has, and origins name the file."""
    settings = read(folder)
    plugin = settings.storage["s3"]
    assert (plugin.type, plugin.connection, plugin.enabled) == ("file", "s3a://company-data", True)
    assert plugin.properties["fs.s3a.secret.key"] == "hush hush hush"
    assert plugin.workspaces["sales"].default_format == "psv"
    assert {name: each.location for name, each in plugin.workspaces.items()} == {"sales": "/sales", "plain": "/plain"}
    assert set(plugin.formats) == {"psv", "parquet"}
    assert plugin.formats["psv"].options == {"delimiter": "|", "extractHeader": "true"}
    assert {name: each.location for name, each in settings.storage["dfs"].workspaces.items()} == {"root": "/srv"}
    hive, shop = settings.storage["warehouse"], settings.storage["shop"]
    assert (hive.type, hive.connection, hive.enabled) == ("hive", "thrift://hms:9083", False)
    assert hive.properties == {"fs.s3a.endpoint.region": "eu-west-1"}
    assert (shop.type, shop.connection) == ("jdbc", "jdbc:postgresql://db/shop")
    assert shop.properties == {"user": "u", "password": "open sesame"}
    assert str(folder) in str(settings.origins["drill.metastore.storage.s3.connection"])


def test_what_it_says_in_vain_is_told(folder: Path) -> None:
    """One warning for each thing that the metastore lacks, by name, and none for the rest."""
    told = [warning.partition(" in Drill's")[0] for warning in read(folder).warnings]
    assert sorted(told) == [
        "allowAccessOutsideWorkspace of workspace s3.sales",
        "authMode of plugin s3",
        "format httpd of type httpd of plugin s3",
        "plugin kafka of type kafka",
    ]


def test_the_metastores_files_win_over_it(folder: Path) -> None:
    """Key by key."""
    own = 'drill.metastore.storage.s3 { connection = "s3a://other", workspaces.sales.location = "/mine" }'
    (folder / "drill-metastore-override.conf").write_text(own)
    plugin = read(folder).storage["s3"]
    assert plugin.connection == "s3a://other"
    assert {name: each.location for name, each in plugin.workspaces.items()} == {"sales": "/mine", "plain": "/plain"}


def test_a_lost_key_is_an_error_here_too(folder: Path) -> None:
    """Hadoop's keys without quotes: one takes the other away."""
    text = 'storage.s3 { connection: "s3a://b", config { fs.s3a.endpoint: "x", fs.s3a.endpoint.region: "y" } }'
    (folder / "storage-plugins-override.conf").write_text(text)
    with pytest.raises(ConfigError, match=r"fs\.s3a\.endpoint .*is overridden by .*fs\.s3a\.endpoint\.region"):
        read(folder)


def test_no_secret_of_it_is_shown(folder: Path) -> None:
    """Neither in what is in effect nor in the text of the settings."""
    settings = read(folder)
    assert "hush hush" not in repr(settings) + repr(settings.explain())
    assert "open sesame" not in repr(settings) + repr(settings.explain())
