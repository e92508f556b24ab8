"""Settings are typed, complete and checked; every refusal names the key, the value and the file with its line."""

import logging
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from metastore.config import ExpirationSettings, Settings, load, load_text
from metastore.errors import ConfigError

WriteConf = Callable[..., Path]
ICEBERG = "drill.metastore.iceberg"

# Laid out as Drill's own file is: unquoted dotted Hadoop and Iceberg names, colons, commas, both kinds of comments.
DRILL_OVERRIDE = """
# Configuration for the Drill Metastore.
drill.metastore: {
  implementation.class: "org.apache.drill.metastore.iceberg.IcebergMetastore",
  rdbms: { data_source: { url: "jdbc:postgresql://db:5432/m", password: "hunter2", properties: { maxIdle : 8 } } },
  mongo: { connection: "mongodb://u:hunter2@localhost:27017/", database: meta },
  iceberg: {
    config.properties: {
      // default file system
      fs.defaultFS: "file:///"
    }
    location: {
      base_path: "/app",
      relative_path: ${drill.exec.zk.root}"/metastore/iceberg"
    }
    expiration: { period: { days: 1, hours: "12" } },
    components: {
      common.properties: { write.metadata.compression-codec: "none", write.metadata.previous-versions-max: 5 },
      tables: { location: "tables", properties: { write.metadata.compression-codec: "gzip" } },
      views: { location: "views", properties: {} }
    }
  }
}
"""


def test_the_defaults() -> None:
    """Without any configuration the metastore stands where Drill's own default is, and nothing expires."""
    settings = load_text("")
    assert settings.iceberg.base_location == os.path.expanduser("~") + "/drill/metastore/iceberg"
    assert settings.iceberg.expiration == ExpirationSettings(None, None, None)
    assert settings.iceberg.commit.timeout == timedelta(seconds=60)
    assert settings.iceberg.cache_bytes == 256_000_000
    assert {each.name: each.location for each in settings.iceberg.components.values()} == {
        "tables": "tables",
        "views": "views",
        "materialized_views": "materialized_views",
        "runs": "runs",
    }
    workspaces = settings.storage["dfs"].workspaces
    assert {(each.name, each.location, each.writable, each.default_format) for each in workspaces.values()} == {
        ("root", "/", False, None),
        ("tmp", "/tmp", True, None),
    }
    engine = settings.engine
    assert (engine.kind, engine.spark_threshold_files, engine.processes, engine.spark) == ("auto", 50_000, 0, {})
    assert settings.warnings == ()


def test_a_drill_users_file_loads_unchanged(write_conf: WriteConf) -> None:
    """Drill's file beside its main configuration is read as Drill reads it; what has no effect here is told by name."""
    directory = write_conf(
        main='drill.exec: { cluster-id: "c1", zk.root: "c1", zk.connect: "z:2181" }', override=DRILL_OVERRIDE
    )
    settings = load(directory, environ={})
    [warning] = settings.warnings
    assert "components.tables.properties.write.metadata.compression-codec = gzip: it has no effect" in warning
    assert settings.iceberg.base_location == "/app/c1/metastore/iceberg"
    assert settings.iceberg.config_properties == {"fs.defaultFS": "file:///"}
    assert settings.iceberg.expiration.period == timedelta(days=1, hours=12)
    assert settings.iceberg.components["tables"].properties == {
        "write.metadata.compression-codec": "gzip",
        "write.metadata.previous-versions-max": "5",
    }
    assert settings.iceberg.components["views"].properties["write.metadata.compression-codec"] == "none"
    assert "hunter2" not in repr(settings.explain())


def test_another_implementation_is_noted_once() -> None:
    """A class that is not the Iceberg metastore gives one warning that names it; its settings give none."""
    settings = load_text(DRILL_OVERRIDE.replace("iceberg.IcebergMetastore", "rdbms.RdbmsMetastore"))
    warning, _ = settings.warnings
    assert "org.apache.drill.metastore.rdbms.RdbmsMetastore" in warning


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        (f"{ICEBERG}.expiration.period.fortnights", "1", "unknown unit 'fortnights'; known are nanos, micros"),
        (f"{ICEBERG}.expiration.period.days", "1.5", "whole number"),
        (f"{ICEBERG}.expiration.period.days", "true", "whole number"),
        (f"{ICEBERG}.expiration.period.days", "999999999999", "too long"),
        (f"{ICEBERG}.expiration.period", '"7 days"', "an object is expected"),
        (f"{ICEBERG}.expiration.retain_last", "0", "at least 1"),
        (f"{ICEBERG}.expiration.min_age", "2 fortnights", "unknown unit 'fortnights'"),
        (f"{ICEBERG}.commit.timeout", "-1s", "not below zero"),
        (f"{ICEBERG}.commit.timeout", "soon", "a number and a unit"),
        (f"{ICEBERG}.commit.timeout", "null", "missing or null"),
        (f"{ICEBERG}.cache.size", '"5 XB"', "unknown unit 'XB'"),
        (f"{ICEBERG}.cache.size", "[1]", "single value"),
        (f"{ICEBERG}.location.base_path", "null", "missing or null"),
        (f"{ICEBERG}.location", "7", "an object is expected"),
        (f"{ICEBERG}.components.tables.location", '"../x"', "below the base location"),
        (f"{ICEBERG}.components.views.location", '""', "below the base location"),
        (
            f"{ICEBERG}.components.views.location",
            '"tables"',
            "within drill.metastore.iceberg.components.tables.location",
        ),
        (f"{ICEBERG}.components.views.location", '"/tables//dfs/"', "components.tables.location = tables"),
        (f"{ICEBERG}.components.runs.location", '"daemon/runs"', "the daemon keeps its lease"),
        (f"{ICEBERG}.components.common.properties", "7", "an object is expected"),
        (f"{ICEBERG}.components.common.properties.a.b", "[1]", "single value"),
        ("drill.metastore.storage.dfs.enabled", "perhaps", "true or false"),
        ("drill.metastore.storage.dfs.workspaces.tmp.location", "null", "missing or null"),
        ("drill.metastore.storage.dfs.workspaces.tmp.writable", "2", "true or false"),
        ("drill.metastore.engine.kind", "flink", "one of auto, local, spark"),
        ("drill.metastore.engine.processes", "-1", "at least 0"),
        ("drill.metastore.engine.spark_threshold_files", '"many"', "whole number"),
    ],
)
def test_a_wrong_value_names_key_value_and_line(write_conf: WriteConf, key: str, value: str, reason: str) -> None:
    """Whatever is wrong, the message leads to the line to mend."""
    directory = write_conf(override=f"# site\n{key} = {value}\n")
    with pytest.raises(ConfigError, match=reason) as caught:
        load(directory, environ={})
    message = str(caught.value)
    assert key.removesuffix(".fortnights").removesuffix(".days") in message
    assert f"override: {directory}/drill-metastore-override.conf:2" in message
    assert value == "null" or value.strip('"') in message


def test_a_missing_key_names_every_file(write_conf: WriteConf) -> None:
    """A plugin without its connection is refused by the key that is missing and the places that were read."""
    directory = write_conf(distrib="drill.exec.zk.root = x", override="drill.metastore.storage.lake.enabled = true")
    with pytest.raises(ConfigError, match=r"storage\.lake\.connection is missing") as caught:
        load(directory, environ={})
    assert "default, distrib: " in str(caught.value)
    assert f"override: {directory}/drill-metastore-override.conf" in str(caught.value)


@pytest.mark.parametrize(
    "period", ["{}", "null", "{ days = 0 }", "{ days = -3 }", "{ days = 1, hours = -24 }", "{ days = null }"]
)
def test_no_expiration(period: str) -> None:
    """Absent, null, zero and negative periods all mean that nothing expires."""
    assert load_text(f"{ICEBERG}.expiration.period = {period}").iceberg.expiration.period is None


def test_expiration_bounds() -> None:
    """Numbers may come as text; the minimal age may be text or a period."""
    text = f'{ICEBERG}.expiration {{ period {{ days = "7", minutes = 5 }}, retain_last = "3", min_age = 36 h }}'
    settings = load_text(text)
    assert settings.iceberg.expiration == ExpirationSettings(timedelta(days=7, minutes=5), 3, timedelta(hours=36))
    settings = load_text(f"{ICEBERG}.expiration.min_age {{ days = 1 }}")
    assert settings.iceberg.expiration.min_age == timedelta(days=1)


@pytest.mark.parametrize(
    ("base_path", "file_system", "expected"),
    [
        ("/app", None, "/app/r"),
        ("/app/", "file:///", "/app/r"),
        ("data/../store", None, "/work dir/store/r"),
        ("~/m", None, "/home/ann/m/r"),
        ("/", None, "/r"),
        ("file:///app", None, "/app/r"),
        ("file://localhost/app", None, "/app/r"),
        ("file:/app", "hdfs://nn:8020", "/app/r"),
        ("/app", "hdfs://nn:8020/", "hdfs://nn:8020/app/r"),
        ("s3://bucket/a", None, "s3://bucket/a/r"),
        ("s3://bucket", "hdfs://nn:8020", "s3://bucket/r"),
    ],
)
def test_base_location(base_path: str, file_system: str | None, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A plain absolute path on the local disk; below fs.defaultFS, or its own URI, elsewhere."""
    monkeypatch.setenv("HOME", "/home/ann")
    properties = {} if file_system is None else {"fs.defaultFS": file_system}
    iceberg = {"location": {"base_path": base_path, "relative_path": "/r"}, "config.properties": properties}
    settings = Settings.from_mapping({ICEBERG: iceberg}, environ={}, cwd=Path("/work dir"))
    assert settings.iceberg.base_location == expected


def test_a_relative_path_on_a_remote_file_system_is_refused() -> None:
    """Only a path from the root means the same to everybody there."""
    with pytest.raises(ConfigError, match=r'base_path = "app".*hdfs://nn starts with a slash'):
        load_text(f'{ICEBERG} {{ location.base_path = app, config.properties."fs.defaultFS" = "hdfs://nn" }}')


@pytest.mark.parametrize(
    "text",
    [
        f'{ICEBERG}.location.base_path = "s3://"${{?NOPE}}',
        f'{ICEBERG}.location.base_path = "s3:///drill"',
        f'{ICEBERG} {{ location.base_path = "/drill", config.properties."fs.defaultFS" = "s3://" }}',
    ],
)
def test_a_store_has_a_name(text: str) -> None:
    """Without it the location would be a folder here that is called like a scheme."""
    with pytest.raises(ConfigError, match=r"location\.base_path = .*names no bucket or host"):
        load_text(text, environ={})


def test_storage_plugins_and_workspaces() -> None:
    """Own ones stand beside the shipped ones; null removes; local folders are absolute, remote ones stay."""
    text = """drill.metastore.storage {
      dfs.workspaces { tmp = null, demo { location = "demo/data", default_format = parquet } }
      lake { connection = "s3://b", enabled = off, workspaces.raw { location = "/raw", writable = yes } }
      lake.properties.region = eu
    }"""
    storage = load_text(text, cwd=Path("/here")).storage
    assert list(storage["dfs"].workspaces) == ["root", "demo"]
    assert storage["dfs"].workspaces["demo"].location == "/here/demo/data"
    assert storage["dfs"].workspaces["demo"].default_format == "parquet"
    lake = storage["lake"]
    assert (lake.enabled, lake.connection, lake.properties) == (False, "s3://b", {"region": "eu"})
    assert (lake.workspaces["raw"].location, lake.workspaces["raw"].writable) == ("/raw", True)
    assert list(load_text("drill.metastore.storage.dfs = null").storage) == []


def test_a_hive_plugin_has_a_uri_and_no_workspaces_of_its_own() -> None:
    """Its databases are its workspaces; without a URI it is refused."""
    plugin = load_text('drill.metastore.storage.hive { type = hive, uri = "thrift://h:9083" }').storage["hive"]
    assert (plugin.type, plugin.connection, plugin.workspaces) == ("hive", "thrift://h:9083", {})
    with pytest.raises(ConfigError, match=r"storage\.hive\.uri is missing"):
        load_text("drill.metastore.storage.hive.type = hive")
    with pytest.raises(ConfigError, match="one of file, delta, hive, iceberg, jdbc"):
        load_text("drill.metastore.storage.hive { type = hbase, uri = x }")


def test_component_properties() -> None:
    """A component's property wins over the common one, and null takes the common one away."""
    text = f"""{ICEBERG}.components {{
      common.properties {{ a = 1, "b.c" = 2, d.e = true }}
      tables.properties {{ a = 0, b.c = null }}
    }}"""
    components = load_text(text).iceberg.components
    assert components["tables"].properties == {"a": "0", "d.e": "true"}
    assert components["views"].properties == {"a": "1", "b.c": "2", "d.e": "true"}


@pytest.mark.parametrize(
    ("key", "value"),
    {
        "daemon.interval": "1000000 days",
        "daemon.lease.duration": "1000000 days",
        "daemon.keep_runs": "{ days = 900000 }",
        "iceberg.expiration.period.days": "900000",
        "policies.default.expire_snapshots.older_than": "900000 days",
        "policies.default.expire_snapshots.schedule": '"900000 days"',
    }.items(),
)
def test_a_duration_that_no_clock_can_hold_is_refused(key: str, value: str) -> None:
    """By its key when it is read, not by whoever first waits for it or takes it off."""
    with pytest.raises(ConfigError, match="100000 days are expected") as caught:
        load_text(f"drill.metastore.{key} = {value}")
    assert key.removesuffix(".days") in str(caught.value)


def test_an_object_that_is_taken_away_is_known() -> None:
    """Null is a value, so no key that holds it is unknown."""
    for key in ("storage.dfs", "storage.dfs.workspaces.tmp", "storage.dfs.workspaces", "engine.spark", "catalogs"):
        assert load_text(f"drill.metastore.{key} = null").warnings == ()


def test_unknown_keys_warn_with_the_nearest_known_one(caplog: pytest.LogCaptureFixture) -> None:
    """Each unknown key gives one warning, in the settings and in the log, with a suggestion where one is near."""
    text = f"""{ICEBERG}.cache.siz = 1
    {ICEBERG}.components.table.location = t
    drill.metastore.location.base_path = x
    drill.metastore.qqq = 1
    drill.exec.anything = 1"""
    with caplog.at_level(logging.WARNING, logger="metastore"):
        warnings = load_text(text).warnings
    assert [record.getMessage() for record in caplog.records] == list(warnings)
    siz, table, location, strange = warnings
    assert f"{ICEBERG}.cache.siz (given); did you mean {ICEBERG}.cache.size?" in siz
    assert f"did you mean {ICEBERG}.components.tables.location?" in table
    assert f"did you mean {ICEBERG}.location.base_path?" in location
    assert strange.endswith("drill.metastore.qqq (given)")


@pytest.mark.parametrize(
    ("text", "shown", "meant"),
    [
        (f'{ICEBERG}."cache.size" = 1', f'{ICEBERG}."cache.size"', f"{ICEBERG}.cache.size"),
        ('"drill.metastore" { engine.kind = local }', '"drill.metastore"', "drill.metastore"),
        ('"drill.metastore.engine".kind = local', '"drill.metastore.engine"', "drill.metastore.engine"),
        ('drill."metastore.engine.kind" = local', 'drill."metastore.engine.kind"', "drill.metastore.engine.kind"),
    ],
)
def test_dots_in_quotes_are_seen(text: str, shown: str, meant: str) -> None:
    """Such a name is another one than it looks like, and what it holds has no effect; Drill's own are Drill's."""
    [warning] = load_text(f'{text}\n"a.b".c = 1\ndrill."exec.zk".x = 1').warnings
    assert warning.startswith(f"unknown key {shown} (")
    assert warning.endswith(f"did you mean {meant}?")


@pytest.mark.parametrize(
    "name",
    [
        "fs.s3a.secret.key",
        "fs.s3a.access.key",
        "password",
        "s3.session-token",
        "fs.azure.sas.box",
        "gcs.credentials",
        "gcs.service-account-json",
        "adls.sas-token.account",
        "header.Authorization",
        "header.X-Api-Key",
        "spark.ssl.keyPassword",
    ],
)
def test_secrets_are_redacted(name: str) -> None:
    """What looks like a secret is usable, and never shown: not in explain, not in repr, not in an error."""
    settings = load_text(f'{ICEBERG}.config.properties."{name}" = hunter2')
    assert settings.iceberg.config_properties[name] == "hunter2"
    assert {each.key: each.value for each in settings.explain()}[f"{ICEBERG}.config.properties.{name}"] == "********"
    assert "hunter2" not in repr(settings)
    with pytest.raises(ConfigError, match=name) as caught:
        load_text(f'{ICEBERG}.config.properties."{name}" = [hunter2]')
    assert "hunter2" not in str(caught.value)


def test_a_password_in_a_uri_is_redacted() -> None:
    """The user part of a URI shows the user and hides the password; other values are shown as they are."""
    text = 'drill.metastore.storage.db { connection = "sftp://ann:hunter2@host/x", properties { plain = v } }'
    shown = {each.key: each.value for each in load_text(text).explain()}
    assert shown["drill.metastore.storage.db.connection"] == "sftp://ann:********@host/x"
    assert shown["drill.metastore.storage.db.properties.plain"] == "v"


@pytest.mark.parametrize(
    "uri",
    [
        "jdbc:postgresql://host/db?user=ann&password=hunter2",
        "jdbc:sqlserver://host;databaseName=db;password=hunter2;encrypt=true",
        "https://box.blob/x?sv=1&sig=hunter2&se=2",
        "https://box.s3/x?X-Amz-Credential=hunter2&X-Amz-Signature=hunter2",
        "postgresql+psycopg2://ann:hunter2@host/db",
    ],
)
def test_a_password_anywhere_in_a_uri_is_redacted(uri: str) -> None:
    """In explain and in representations, of the connection and of any property; the value itself is whole."""
    settings = load_text(
        f'drill.metastore.storage.db {{ type = jdbc, connection = "{uri}", properties {{ u = "{uri}" }} }}'
    )
    assert settings.storage["db"].connection == uri
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in str(settings.explain())
    assert "host" in str(settings.explain()) or "box" in str(settings.explain())


def test_explain_says_where_each_value_came_from(write_conf: WriteConf) -> None:
    """Keys come in order, each once, with tier, file and line; origins says the same by key."""
    directory = write_conf(override=f"{ICEBERG} {{\n  cache.size = 0\n}}")
    settings = load(directory, environ={})
    keys = [each.key for each in settings.explain()]
    assert keys == sorted(set(keys))
    size = next(each for each in settings.explain() if each.key == f"{ICEBERG}.cache.size")
    assert (size.value, size.origin.tier, size.origin.line) == (0, "override", 2)
    assert settings.iceberg.cache_bytes == 0
    assert settings.origins[f"{ICEBERG}.cache.size"] == size.origin
    assert str(settings.origins[f"{ICEBERG}.location.base_path"]) == "default"


def test_settings_pickle() -> None:
    """Spark carries settings between processes."""
    settings = load_text(DRILL_OVERRIDE)
    assert pickle.loads(pickle.dumps(settings)) == settings  # noqa: S301  our own bytes


def test_loading_is_silent() -> None:
    """A fresh interpreter with warnings as errors loads the settings and prints nothing."""
    code = "from metastore.config import load_text; load_text('include \"absent\"')"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("", "")


def test_other_storage_has_workspaces_of_its_own() -> None:
    """Catalogs and databases have schemas; a catalog must be named, and a database has a URL."""
    lake = "lake { type = iceberg, catalog = prod }"
    database = 'db { type = jdbc, connection = "jdbc:sqlite:/x", properties.user = me }'
    storage = load_text(f"drill.metastore.storage {{ {lake}, {database} }}").storage
    assert (storage["lake"].type, storage["lake"].catalog, storage["lake"].workspaces) == ("iceberg", "prod", {})
    assert (storage["db"].connection, storage["db"].properties) == ("jdbc:sqlite:/x", {"user": "me"})
    with pytest.raises(ConfigError, match=r"storage\.lake\.catalog is missing"):
        load_text("drill.metastore.storage.lake.type = iceberg")


def test_numbers_are_texts_where_texts_are_read() -> None:
    """A key or a password of digits is what is written; where a number is read it is one, however it is spelled."""
    settings = load_text(
        """drill.metastore.iceberg.config.properties { "s3.access-key-id" = 000123456789, version = 1.10, "s3.x" = 1e3 }
        drill.metastore.iceberg.location.base_path = 0123
        drill.metastore.iceberg.commit.timeout = 1e3
        drill.metastore.iceberg.cache.size = 1e3
        drill.metastore.daemon { jitter = .50, http.port = 09464 }""",
        cwd=Path("/here"),
    )
    properties = settings.iceberg.config_properties
    assert (properties["s3.access-key-id"], properties["version"], properties["s3.x"]) == (
        "000123456789",
        "1.10",
        "1e3",
    )
    assert settings.iceberg.base_path == "/here/0123"
    assert (settings.iceberg.commit.timeout, settings.iceberg.cache_bytes) == (timedelta(seconds=1), 1000)
    assert (settings.daemon.jitter, settings.daemon.endpoint.port) == (0.5, 9464)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        (f'{ICEBERG}.location.base_path = "file://srv/drill"', f"{ICEBERG}.location.base_path"),
        (f'{ICEBERG}.config.properties."fs.defaultFS" = "file://srv"', "config.properties.fs.defaultFS"),
        (f'{ICEBERG}.catalog {{ type = sql, warehouse = "file://srv/x" }}', f"{ICEBERG}.catalog.warehouse"),
        ('drill.metastore.catalogs.l { type = rest, warehouse = "file://srv/x" }', "catalogs.l.warehouse"),
        ('drill.metastore.catalogs.l { type = filesystem, warehouse = "file://srv" }', "catalogs.l.warehouse"),
        ('drill.metastore.storage.dfs.connection = "file://srv/"', "storage.dfs.connection"),
        ('drill.metastore.storage.dfs.workspaces.w.location = "file://srv/x"', "workspaces.w.location"),
        ('drill.metastore.storage.dfs.workspaces.w.location = "file://localhosts/x"', "workspaces.w.location"),
    ],
)
def test_a_local_location_with_a_host_is_refused(text: str, key: str) -> None:
    """A slash is missing: it would be a folder below the working directory, or another than the one that was meant."""
    with pytest.raises(ConfigError, match=r"is the name of a host there.*Did you mean file:///") as caught:
        load_text(text)
    assert key in str(caught.value)


@pytest.mark.parametrize(
    ("lines", "lost"),
    [
        ("fs.s3a.endpoint = x, fs.s3a.endpoint.region = y", "fs.s3a.endpoint"),
        ("fs.s3a.endpoint.region = y\nfs.s3a.endpoint = x", "fs.s3a.endpoint.region"),
        ("fs { s3a { endpoint = x } }\nfs.s3a { endpoint { region = y } }", "fs.s3a.endpoint"),
        ("a = 1\n a { b = 2 }", "a"),
        ('"fs"."s3a" = 1, fs.s3a.endpoint = x', "fs.s3a"),
        ('a =\n  1\n\n"a".b : 2', "a"),
    ],
)
@pytest.mark.parametrize(
    "place",
    [
        f"{ICEBERG}.config.properties",
        f"{ICEBERG}.components.tables.properties",
        f"{ICEBERG}.catalog",
        "drill.metastore.storage.dfs.properties",
        "drill.metastore.catalogs.lake",
        "drill.metastore.engine.spark",
    ],
)
def test_a_value_that_another_key_takes_away_is_refused(
    write_conf: WriteConf, lines: str, lost: str, place: str
) -> None:
    """In whichever order, at every place where names are free; both keys and their lines are named."""
    with pytest.raises(ConfigError, match="is overridden by .*in quotes") as caught:
        load(write_conf(override=f"{place} {{\n{lines}\n}}"), environ={})
    assert f"{place}.{lost} (" in str(caught.value)
    assert re.search(r"\.conf:\d+\).*\.conf:\d+\)", str(caught.value))


def test_a_value_that_another_tier_or_code_takes_away_is_refused(write_conf: WriteConf) -> None:
    """Tiers are laid over one another by the same rules, and a mapping's keys may be paths."""
    place = f"{ICEBERG}.config.properties"
    with pytest.raises(ConfigError, match=r"endpoint \(distrib: .*region \(override: "):
        load(
            write_conf(distrib=f"{place}.fs.s3a.endpoint = x", override=f"{place}.fs.s3a.endpoint.region = y"),
            environ={},
        )
    with pytest.raises(ConfigError, match=r"endpoint \(given\) is overridden"):
        Settings.from_mapping({place: {"fs.s3a.endpoint": "x", "fs.s3a.endpoint.region": "y"}}, environ={})


def test_values_that_stand_beside_one_another_are_kept(write_conf: WriteConf) -> None:
    """Names in quotes, other names, lists, an object that is replaced by null first, and objects that are merged."""
    text = f"""{ICEBERG}.config.properties {{
      "fs.s3a.endpoint" = "http://x/a.b=c", "fs.s3a.endpoint.region" = "y"  # fs.s3a.endpoint.region = z
      fs.s3a.path.style.access = true, fs.s3a.paths = 1
      a = 1, a = null, a.b = 2
      base {{ x = 1 }}, copy = ${{{ICEBERG}.config.properties.base}} {{ y = 2 }}, copy.z = 3
    }}
    {ICEBERG}.expiration.min_age = 1 day
    {ICEBERG}.expiration.min_age {{ days = 2 }}"""
    settings = load(write_conf(override=text), environ={})
    assert settings.iceberg.config_properties == {
        "fs.s3a.endpoint": "http://x/a.b=c",
        "fs.s3a.endpoint.region": "y",
        "fs.s3a.path.style.access": "true",
        "fs.s3a.paths": "1",
        "a.b": "2",
        "base.x": "1",
        "copy.x": "1",
        "copy.y": "2",
        "copy.z": "3",
    }
    assert settings.iceberg.expiration.min_age == timedelta(days=2)


def test_what_has_no_effect_stops_nothing(write_conf: WriteConf) -> None:
    """A key of another of Drill's metastores, of Drill itself or an unknown one, whatever it refers to."""
    text = """drill.metastore.rdbms.database { path = ${nowhere}, user = ${?nowhere} }
    drill.metastore.mongo.connection = "mongodb://"${nobody}
    drill.exec.zk.connect = ${ZK_HOSTS}":2181"
    drill.exec.sys.store.provider.local.path = ${nowhere}
    drill.metastore.iceberg.misspelt = ${nowhere}"""
    (warning,) = load(write_conf(override=text), environ={}).warnings
    assert "drill.metastore.iceberg.misspelt" in warning


def test_what_has_an_effect_must_be_known(write_conf: WriteConf) -> None:
    """A value, an object and a free name whose substitution has no value are refused by their key."""
    for key in (
        "iceberg.location.base_path",
        "iceberg.config.properties.x",
        "engine.spark.x",
        "storage.dfs.connection",
    ):
        with pytest.raises(ConfigError, match=rf"{key} .*refers to \$\{{nowhere\}}"):
            load(write_conf(override=f"drill.metastore.{key} = ${{nowhere}}"), environ={})
