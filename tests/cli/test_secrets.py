"""Secrets are planted in every place of a configuration that can hold one, and looked for in all that comes out."""

from __future__ import annotations

import json
import logging
import pickle
import re
import threading
import traceback
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from metastore.cli.app import app
from metastore.config import load
from metastore.config.daemon import EndpointSettings
from metastore.daemon.endpoint import Endpoint
from metastore.daemon.process import run_once
from metastore.daemon.state import State
from metastore.errors import MetastoreError
from metastore.lake.inspection.tables import METADATA_TABLES, metadata_table
from metastore.redaction import HIDDEN
from metastore.session import connect

_CLOUD_KEYS = [
    "fs.s3a.access.key",
    "fs.s3a.secret.key",
    "fs.s3a.session.token",
    "fs.s3a.bucket.other.secret.key",
    "fs.s3a.encryption.key",
    "s3.secret-access-key",
    "s3.session-token",
    "client.secret-access-key",
    "fs.gs.auth.service.account.private.key",
    "gcs.oauth2.token",
    "fs.azure.account.key.a.dfs.core.windows.net",
    "fs.azure.sas.fixed.token.a.dfs.core.windows.net",
    "fs.azure.account.oauth2.client.secret.a.dfs.core.windows.net",
    "adls.account-key",
    "adls.sas-token",
    "adls.client-secret",
    "hdfs.delegation-token",
]
COMMANDS = [
    ["config"],
    ["init"],
    ["analyze", "s3.w.trips"],
    ["analyze", "azure.w.trips"],
    ["analyze", "db.public.trips"],
    ["analyze", "lakehouse.shop.trips"],
    ["analyze", "warehouse.shop.trips"],
    ["prune", "s3.w.trips", "id = 1"],
    ["tables"],
    ["describe", "s3.w.trips"],
    ["sql", "SELECT * FROM s3.w.trips"],
    ["sql", "SELECT * FROM rest.shop.trips"],
    ["sql", "SELECT * FROM sql.shop.trips"],
    ["inspect", "rest.shop.trips$files"],
    ["inspect", "hive.shop.trips$files"],
    ["inspect", "sql.shop.trips$files"],
    ["inspect", "files.shop.trips$files"],
    ["call", "CALL rest.system.expire_snapshots(schema => 'shop', table_name => 'trips')"],
    ["call", "CALL files.system.remove_orphan_files(schema => 'shop', table_name => 'trips')"],
    ["procedures"],
    ["policy", "explain", "rest.shop.trips"],
    ["daemon", "--dry-run"],
    ["daemon", "--once"],
    ["daemon", "--once", "--log-format", "json"],
    ["runs"],
    ["health"],
    ["history"],
    ["register"],
]
"""Those that end by themselves; most of them fail, since nothing is where the configuration says."""
_SHORT = {"config", "policy", "runs", "procedures", "daemon"}
"""Tried in both forms; the others only as JSON, since some wait for a store that is not there."""
_KEY_OF_SPARK = "spark.hadoop.fs.s3a.bucket.planted.secret.key"
"""Of a bucket that no other test has: Spark's JVM keeps the settings of its first session for all later ones."""


@dataclass
class _Plants:
    """Secrets that were given out."""

    count: int = 0

    def new(self) -> str:
        self.count += 1
        return f"Pl4nted-{self.count:02d}-x"


@pytest.fixture
def echo() -> Iterator[int]:
    """Port of a server that refuses every request, and repeats all that it was sent, as some do."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            said = f"refused {self.path} {self.headers} {body!r}".encode()
            self.send_response(403)
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(said)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield listener.server_port
        listener.shutdown()
        thread.join()


@pytest.fixture
def plants() -> _Plants:
    """None is given out yet."""
    return _Plants()


@pytest.fixture
def conf(tmp_path: Path, plants: _Plants, echo: int) -> Path:
    """A configuration with a secret wherever one can be; ``echo`` answers for all servers."""
    new, server = plants.new, f"http://127.0.0.1:{echo}"

    def keys() -> str:
        lines = [f'"{name}" = "{new()}"' for name in _CLOUD_KEYS]
        lines += [
            f'"adls.connection-string" = "AccountName=a;AccountKey={new()}==;SharedAccessSignature=sv=1&sig={new()}"'
        ]
        lines += [
            f'"fs.s3a.endpoint" = "{server}"',
            f'"s3.endpoint" = "{server}"',
            f'"s3.proxy-uri" = "http://u:{new()}@127.0.0.1:9"',
        ]
        return "\n".join(lines)

    path = tmp_path / "site.conf"
    path.write_text(f"""drill.metastore {{
      iceberg {{ location.base_path = "{tmp_path}/store", config.properties {{ {keys()} }}
        catalog {{ token = "{new()}", credential = "client:{new()}" }} }}
      daemon.http {{ port = 0, token = "{new()}" }}
      engine.spark {{ "spark.driver.extraJavaOptions" = "-Djavax.net.ssl.trustStorePassword={new()} -Da.token={new()}"
        "{_KEY_OF_SPARK}" = "{new()}", "spark.authenticate.secret" = "{new()}" }}
      storage {{
        s3 {{ connection = "s3a://data", workspaces.w.location = "/landing", properties {{ {keys()} }} }}
        azure {{ connection = "abfss://box@a.dfs.core.windows.net", workspaces.w.location = "/x"
          properties {{ {keys()}, "adls.account-host" = "{server}" }} }}
        db {{ type = jdbc, connection = "jdbc:postgresql://127.0.0.1:9/db?user=u&password={new()}"
          properties {{ user = u, password = "{new()}" }} }}
        lakehouse {{ type = iceberg, catalog = rest }}
        warehouse {{ type = hive, uri = "thrift://127.0.0.1:9" }}
      }}
      catalogs {{
        rest {{ type = rest, uri = "{server}", oauth2-server-uri = "{server}/tokens"
          credential = "client:{new()}", "header.X-Api-Key" = "{new()}", {keys()} }}
        rest2 {{ type = rest, uri = "{server}", oauth2-server-uri = "{server}/tokens"
          token = "{new()}", "header.Authorization" = "Bearer {new()}" }}
        sql {{ type = sql, uri = "postgresql+psycopg2://ann:{new()}@127.0.0.1:9/db?sslpassword={new()}" }}
        hive {{ type = hive, uri = "thrift://127.0.0.1:9", {keys()} }}
        files {{ type = filesystem, warehouse = "s3://bucket/wh", {keys()} }}
      }}
      policies.default.expire_snapshots.enabled = true
    }}""")
    return path


@pytest.mark.exhaustive
def test_no_command_shows_a_secret(
    conf: Path, plants: _Plants, caplog: pytest.LogCaptureFixture, record_property: Callable[[str, object], None]
) -> None:
    """Neither in its result, as text and as JSON, nor in errors with their tracebacks, warnings and logs."""
    assert plants.count >= 50
    record_property("secrets", plants.count)
    caplog.set_level(logging.INFO, "metastore")
    shown = []
    for arguments in COMMANDS:
        for options in ([], ["--json", "-v"]) if arguments[0] in _SHORT else (["--json", "-v"],):
            result = CliRunner().invoke(app, ["--conf", str(conf), *options, *arguments])
            if result.exception is not None and not isinstance(result.exception, SystemExit):
                raise result.exception
            shown += [f"{arguments}: {found}" for found in _planted(result.stdout + result.stderr)]
    assert shown == []
    assert _planted(caplog.text) == []


def test_no_error_log_metric_or_history_holds_a_secret(conf: Path) -> None:
    """Of errors also the pickle, and what a traceback shows of their causes; of settings every representation."""
    settings = load(conf)
    errors: list[MetastoreError] = []
    with connect(settings) as session:
        asked: list[Callable[[], object]] = [
            lambda: session.analyze("s3.w.trips"),
            lambda: session.analyze("azure.w.trips"),
            lambda: session.sql("SELECT * FROM rest.shop.trips"),
            *(partial(session.catalogs.schemas, name) for name in settings.catalogs),
            *(partial(session.catalogs.table, name, "shop", "trips") for name in settings.catalogs),
        ]
        for ask in asked:
            with pytest.raises(MetastoreError) as raised:
                ask()
            errors.append(raised.value)
        state = State()
        run_once(session, dry_run=False, state=state)
        history = [vars(run) for run in session.metastore.runs.since("")]
        texts = [repr(settings), str(settings.explain()), repr(session), repr(state), str(history)]
    with Endpoint(EndpointSettings(port=0), state, lambda: 0.0) as endpoint:
        texts += [_page(f"{endpoint.url}{page}") for page in ("/metrics", "/healthz")]
    assert len(errors) >= 5
    for error in errors:
        texts += [str(error), repr(error), "".join(traceback.format_exception(error)), repr(pickle.dumps(error))]
    assert [text[-3000:] for text in texts if _planted(text)] == []
    assert json.loads(texts[6])["trouble"]


_OF_TABLES = [
    "s3.secret-access-key",
    "gcs.oauth2.token",
    "adls.connection-string",
    "jdbc.password",
    "x.authorization",
]


def test_properties_of_tables_are_shown_without_secrets(tmp_path: Path, plants: _Plants) -> None:
    """By every door to an Iceberg table: whoever writes it may have left credentials in properties and summaries."""
    path = tmp_path / "site.conf"
    path.write_text(f"""drill.metastore {{
      iceberg.location.base_path = "{tmp_path}/store"
      catalogs.lake {{ type = sql, uri = "sqlite:///{tmp_path}/lake.db", warehouse = "file://{tmp_path}" }}
    }}""")
    secrets = {name: plants.new() for name in _OF_TABLES}
    with connect(path) as session:
        lake = session.catalogs.open("lake")
        lake.create_namespace("shop")
        data = pa.table({"id": [1]})
        properties = {**secrets, "owner": "ann", "note": f"https://u:{plants.new()}@host"}
        table = lake.create_table("shop.orders", data.schema, properties=properties)
        table.append(data, snapshot_properties={"job.password": plants.new(), "job.name": "nightly"})
        target = session.catalogs.table("lake", "shop", "orders")
        texts = [str(metadata_table(target, name).to_pylist()) for name in METADATA_TABLES]
    assert "ann" in str(texts)
    assert "nightly" in str(texts)
    assert str(texts).count(HIDDEN) == len(secrets) + 2
    where, secret = "schema => 'shop', table_name => 'orders'", plants.new()
    commands = [["inspect", f"lake.shop.orders${name}"] for name in METADATA_TABLES]
    commands += [["sql", f'SELECT * FROM lake.shop."orders${name}"'] for name in METADATA_TABLES]
    commands += [["sql", "DESCRIBE lake.shop.orders"], ["sql", "SHOW TABLES FROM lake.shop"], ["health"]]
    commands += [["call", f"CALL lake.system.set_table_property({where}, key => 'jdbc.password', value => '{secret}')"]]
    commands += [["sql", f"ALTER TABLE lake.shop.orders SET PROPERTIES \"x.token\" = '{secret}', owner = 'bob'"]]
    commands += [["sql", f"ALTER TABLE lake.shop.orders SET PROPERTIES \"x.token\" = '{secret}' nonsense"]]
    for command in commands:
        for options in ([], ["--json", "-v"]):
            result = CliRunner().invoke(app, ["--conf", str(path), *options, *command])
            texts.append(result.stdout + result.stderr)
    assert [text for text in texts if _planted(text)] == []


def test_a_refused_configuration_shows_none(tmp_path: Path, plants: _Plants) -> None:
    """The error names the key and repeats the value, as far as it is no secret."""
    wrong: list[tuple[str, Any]] = [
        ("catalogs.a", f'{{ type = "{plants.new()}", token = "{plants.new()}" }}'),
        ("catalogs.a", f'{{ type = hive, uri = "http://u:{plants.new()}@host" }}'),
        ("storage.s3", f'{{ connection = ["s3://u:{plants.new()}@host"], workspaces = {{}} }}'),
        ("daemon.http", f'{{ port = x, token = "{plants.new()}" }}'),
        ("iceberg.config.properties", f'{{ "fs.s3a.secret.key" = ["{plants.new()}"] }}'),
        ("engine.spark", f'{{ "spark.ssl.keyPassword" = {{ a = ["{plants.new()}"] }} }}'),
    ]
    path = tmp_path / "site.conf"
    for key, value in wrong[1:]:
        path.write_text(f"drill.metastore.{key} = {value}")
        result = CliRunner().invoke(app, ["--conf", str(path), "-v", "config"])
        assert result.exit_code == 1
        assert _planted(result.stdout + result.stderr) == []


def _page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5) as page:  # noqa: S310 - the test's own server
        text: str = page.read().decode()
        return text


def _planted(text: str) -> list[str]:
    return sorted({text[max(0, found.start() - 60) : found.end()] for found in re.finditer(r"Pl4nted-\d+", text)})
