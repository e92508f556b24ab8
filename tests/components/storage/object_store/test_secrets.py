"""A credential opens the store and is seen nowhere else: files, errors, logs, settings, representations."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import obstore
import pytest
from obstore.store import ObjectStore
from support.store_server import StoreServer

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.errors import MetastoreError, StorageError
from metastore.lake.iceberg.catalogs.file_system_catalog import FileSystemCatalog
from metastore.lake.stores.hadoop_properties import file_io_properties
from metastore.lake.stores.locations import StoreLocation
from metastore.lake.stores.objects.object_store import ObjectPointers
from metastore.lake.stores.objects.object_store_client import Buckets
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]

SECRET = "Zq7-recognisable/secret+value=="
SECRETS = {
    "s3a": {"fs.s3a.access.key": f"AKIA{SECRET}", "fs.s3a.secret.key": SECRET, "fs.s3a.session.token": SECRET * 2},
    "pyiceberg": {"s3.access-key-id": f"AKIA{SECRET}", "s3.secret-access-key": SECRET, "s3.session-token": SECRET},
    "client": {"client.access-key-id": SECRET, "client.secret-access-key": SECRET},
}
AZURE = "abfss://box@account.dfs.core.windows.net/t/metadata/v1.metadata.json"
SAS = "sv=2024-11-04&ss=b&sig=c2lnbmF0dXJl+cmVjb2duaXNhYmxl"  # in a URL the plus is written otherwise


def shown(error: BaseException) -> str:
    """All that a traceback, a log or a user of ``error`` would show."""
    return "".join(traceback.format_exception(error)) + repr(error) + str(error)


@pytest.mark.parametrize("kind", ["s3"], indirect=True)
@pytest.mark.parametrize("spelling", SECRETS)
def test_nothing_that_is_written_or_shown_holds_a_secret(
    settings: Callable[..., Settings],
    server: StoreServer,
    bucket: ObjectStore,
    unit: MakeUnit,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
    spelling: str,
) -> None:
    """From opening to expiration: every object of the bucket, the settings as shown, logs, output, representations."""
    caplog.set_level(logging.DEBUG)
    keys = {"fs.s3a.endpoint": server.endpoint, "fs.s3a.endpoint.region": "us-east-1", **SECRETS[spelling]}
    given = {
        "config.properties": {f'"{key}"': value for key, value in keys.items()},
        "expiration": {"period": {"millis": 1}, "retain_last": 1},
    }
    chosen = settings(**given)
    with Metastore.open(chosen) as metastore:
        metastore.tables.modify().overwrite([unit("a")]).execute()
        metastore.tables.modify().overwrite([unit("a")]).execute()
        metastore.tables.expiration_worker.join()
        expired = metastore.tables.expiration.expire()
        rows = metastore.tables.read().metadata_types(MetadataType.ALL).execute()
        table = metastore.tables._backing.table.load()
        texts = [chosen, chosen.explain(), metastore, metastore.tables, metastore.tables.metadata.properties, expired]
        texts += [rows, metastore.tables.metadata.history(), table, table and table.io, table and table.catalog]
        catalog = metastore.tables._backing.table.catalog
        assert isinstance(catalog, FileSystemCatalog)
        texts += [catalog, catalog._store, metastore._catalog, caplog.text, *capfd.readouterr()]
    assert rows
    assert [text for text in map(str, [*texts, *map(repr, texts)]) if SECRET in text] == []
    written = [entry["path"] for chunk in obstore.list(bucket) for entry in chunk]
    assert len(written) >= 5
    assert [path for path in written if SECRET.encode() in bytes(obstore.get(bucket, path).bytes())] == []


@pytest.fixture
def chatty_store() -> Iterator[str]:
    """Endpoint of a store that refuses everything, and repeats what it was sent as S3 does of a wrong signature."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(403)
            said = f"<Error><Code>SignatureDoesNotMatch</Code>{self.headers}{SECRET}</Error>".encode()
            self.send_header("Content-Length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = answer  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as listener:
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        yield f"http://127.0.0.1:{listener.server_port}"
        listener.shutdown()
        thread.join()


@pytest.mark.parametrize("kind", ["s3"], indirect=True)
@pytest.mark.parametrize("spelling", SECRETS)
def test_no_error_holds_a_secret(
    settings: Callable[..., Settings], unit: MakeUnit, chatty_store: str, spelling: str
) -> None:
    """Neither its text nor its causes, though the store's answer does: it is shown without them."""
    keys = {"fs.s3a.endpoint": chatty_store, **SECRETS[spelling]}
    chosen = settings(**{"config.properties": {f'"{key}"': value for key, value in keys.items()}})
    with Metastore.open(chosen) as metastore, pytest.raises(StorageError, match="SignatureDoesNotMatch") as raised:
        metastore.tables.modify().overwrite([unit("a")]).execute()
    assert SECRET not in shown(raised.value)


@pytest.mark.parametrize("spelling", SECRETS)
def test_no_refusal_of_a_commit_holds_a_secret(chatty_store: str, spelling: str) -> None:
    """Nor that of each operation of a pointer."""
    location = "s3a://box/t/metadata/v1.metadata.json"
    properties = file_io_properties(location, {"fs.s3a.endpoint": chatty_store, **SECRETS[spelling]})
    pointers = ObjectPointers(Buckets(properties), lambda _: None)
    operations: list[Callable[[], object]] = [
        lambda: pointers.create_if_absent(location, b""),
        lambda: pointers.identities([location]),
        lambda: pointers.read(location),
        lambda: pointers.replace(location, b""),
        lambda: pointers.remove(location),
        lambda: pointers.entries(location),
    ]
    for operation in operations:
        with pytest.raises((StorageError, OSError)) as raised:
            operation()
        assert SECRET not in shown(raised.value)


@pytest.mark.parametrize(
    ("properties", "secret"),
    [
        ({"fs.azure.sas.fixed.token.account.dfs.core.windows.net": SAS}, "c2lnbmF0dXJl"),
        ({"fs.azure.account.key.account.dfs.core.windows.net": "bm90IGEga2V5"}, "bm90IGEga2V5"),
        ({"fs.azure.account.key.account.dfs.core.windows.net": "not base64!"}, "not base64!"),
    ],
    ids=["sas", "key", "broken key"],
)
def test_azure_signs_urls_with_it(chatty_store: str, properties: dict[str, str], secret: str) -> None:
    """A SAS token is part of every URL, so it must be taken out of what the client says of one."""
    for host in (chatty_store, "http://127.0.0.1:1"):
        opened = {**file_io_properties(AZURE, properties), "adls.account-host": host}
        with pytest.raises((MetastoreError, OSError)) as raised:
            ObjectPointers(Buckets(opened), lambda _: None).create_if_absent(AZURE, b"x")
        assert secret not in shown(raised.value)
        with pytest.raises((MetastoreError, OSError)) as raised:
            ObjectPointers(Buckets(opened), lambda _: None).entries(AZURE)
        assert secret not in shown(raised.value)


@pytest.mark.parametrize("credentials", [f"AKIA:{SECRET}", "AKIA:Zq7-recognisable"])
def test_credentials_in_a_location_are_refused_unseen(credentials: str) -> None:
    """Old Hadoop releases had them there."""
    keys = {"drill.metastore.iceberg.location.base_path": f"s3a://{credentials}@bucket/drill"}
    with pytest.raises(StorageError, match=r"belong in drill\.metastore\.iceberg\.config\.properties") as raised:
        Metastore.open(Settings.from_mapping(keys, environ={}))
    assert "Zq7" not in shown(raised.value)


def test_what_a_client_says_of_an_url_ends_before_the_query() -> None:
    """A store may have signed it with what no configuration holds, such as a token it asked for itself."""
    bucket = Buckets({}).of(StoreLocation.parse("s3://box/x"))
    error = OSError("no answer from https://box.example/x?sig=Zq7 in time\n\nDebug source: all of it")
    assert bucket.error_text(error) == "no answer from https://box.example/x in time"
    assert bucket.cause(error) is None
    assert bucket.cause(harmless := OSError("no answer")) is harmless


@pytest.mark.parametrize(
    ("location", "properties"),
    [
        (AZURE, {"adls.token": SECRET}),
        (AZURE, {"adls.client-id": "a", "adls.client-secret": SECRET, "adls.tenant-id": "b"}),
        ("gs://box/x", {"gcs.oauth2.token": SECRET}),
        ("gs://box/x", {"gcs.service-account-json": SECRET}),
        ("s3://box/x", {"s3.access-key-id": SECRET, "s3.connect-timeout": "no time"}),
    ],
    ids=["azure token", "azure client", "gcs token", "gcs account", "s3"],
)
def test_opening_shows_none(location: str, properties: dict[str, Any]) -> None:
    """Whether the client takes the properties or refuses them."""
    try:
        found = repr(Buckets(properties).of(StoreLocation.parse(location)))
    except MetastoreError as error:
        found = shown(error)
    assert SECRET not in found
