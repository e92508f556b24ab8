"""Hadoop's connector keys mean what the connectors' documentation says, and give way to PyIceberg's."""

from __future__ import annotations

import json

import obstore
import pytest
from hypothesis import given
from hypothesis import strategies as st
from obstore.exceptions import BaseError
from obstore.store import AzureStore, GCSStore, S3Store

from metastore.errors import ConfigError
from metastore.lake.stores.hadoop_properties import file_io_properties
from metastore.lake.stores.locations import StoreLocation
from metastore.lake.stores.objects.object_store_client import Buckets

ABFS = "abfss://box@account.dfs.core.windows.net/x"
END = "account.dfs.core.windows.net"
OAUTH = "https://login.microsoftonline.com/tenant-1/oauth2/token"
ANONYMOUS = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"

MEANINGS = [
    ("s3a://b/x", "fs.s3a.access.key", "AKIA", {"s3.access-key-id": "AKIA"}),
    ("s3a://b/x", "fs.s3a.secret.key", "s", {"s3.secret-access-key": "s"}),
    ("s3a://b/x", "fs.s3a.session.token", "t", {"s3.session-token": "t"}),
    ("s3a://b/x", "fs.s3a.endpoint.region", "eu-west-1", {"s3.region": "eu-west-1"}),
    ("s3a://b/x", "fs.s3a.endpoint", "http://minio:9000/", {"s3.endpoint": "http://minio:9000"}),
    ("s3a://b/x", "fs.s3a.endpoint", "minio:9000", {"s3.endpoint": "https://minio:9000"}),
    ("s3a://b/x", "fs.s3a.endpoint", "s3.amazonaws.com", {}),
    ("s3a://b/x", "fs.s3a.path.style.access", "true", {"s3.force-virtual-addressing": "false"}),
    ("s3a://b/x", "fs.s3a.path.style.access", "false", {"s3.force-virtual-addressing": "true"}),
    ("s3a://b/x", "fs.s3a.aws.credentials.provider", f"x.Other, {ANONYMOUS}", {"s3.anonymous": "true"}),
    ("s3a://b/x", "fs.s3a.aws.credentials.provider", "x.Other", {}),
    ("s3a://b/x", "fs.s3a.assumed.role.arn", "arn:aws:iam::1:role/r", {"s3.role-arn": "arn:aws:iam::1:role/r"}),
    ("s3a://b/x", "fs.s3a.connection.timeout", "1500", {"s3.request-timeout": "1.5"}),
    ("s3a://b/x", "fs.s3a.connection.timeout", "200s", {"s3.request-timeout": "200"}),
    ("s3a://b/x", "fs.s3a.connection.timeout", "250 ms", {"s3.request-timeout": "0.25"}),
    ("s3a://b/x", "fs.s3a.connection.establish.timeout", "2M", {"s3.connect-timeout": "120"}),
    ("s3a://b/x", "fs.s3a.connection.timeout", "2 weeks", {}),
    ("s3a://b/x", "fs.s3a.connection.timeout", "soon", {}),
    ("s3a://b/x", "fs.s3a.encryption.algorithm", "SSE-KMS", {"s3.server-side-encryption": "aws:kms"}),
    ("s3a://b/x", "fs.s3a.bucket.b.access.key", "own", {"s3.access-key-id": "own"}),
    ("s3a://b/x", "fs.s3a.bucket.other.access.key", "own", {}),
    ("gs://b/x", "fs.gs.project.id", "p", {"gcs.project-id": "p"}),
    ("gs://b/x", "google.cloud.auth.service.account.json.keyfile", "/k", {"gcs.service-account-file": "/k"}),
    ("gs://b/x", "fs.gs.auth.service.account.json.keyfile", "/k", {"gcs.service-account-file": "/k"}),
    ("gs://b/x", "fs.gs.auth.type", "UNAUTHENTICATED", {"gcs.anonymous": "true"}),
    ("gs://b/x", "fs.gs.auth.type", "COMPUTE_ENGINE", {}),
    ("gs://b/x", "fs.gs.storage.root.url", "http://gcs:4443", {"gcs.service.host": "http://gcs:4443"}),
    (ABFS, f"fs.azure.account.key.{END}", "a2V5", {"adls.account-key": "a2V5"}),
    (ABFS, "fs.azure.account.key.account.blob.core.windows.net", "a2V5", {"adls.account-key": "a2V5"}),
    (ABFS, "fs.azure.account.key.another.dfs.core.windows.net", "a2V5", {}),
    (ABFS, "fs.azure.account.key.myaccount", "a2V5", {}),
    (ABFS, "fs.azure.abfs.endpoint", "127.0.0.1:10000", {"adls.account-host": "https://127.0.0.1:10000/account"}),
    (ABFS, "fs.azure.abfs.endpoint", "http://azurite:10000/", {"adls.account-host": "http://azurite:10000/account"}),
    (ABFS, "fs.azure.abfs.endpoint", "no.port", {}),
    (ABFS, f"fs.azure.sas.fixed.token.{END}", "sig=x", {"adls.sas-token": "sig=x"}),
    (ABFS, "fs.azure.sas.box.account.blob.core.windows.net", "sig=x", {"adls.sas-token": "sig=x"}),
    (ABFS, f"fs.azure.account.oauth2.client.id.{END}", "id", {"adls.client-id": "id"}),
    (ABFS, "fs.azure.account.oauth2.client.secret", "s", {"adls.client-secret": "s"}),
    (
        ABFS,
        f"fs.azure.account.oauth2.client.endpoint.{END}",
        OAUTH,
        {"adls.tenant-id": "tenant-1", "adls.authority-host": "https://login.microsoftonline.com"},
    ),
]


@pytest.mark.parametrize(("location", "key", "value", "meant"), MEANINGS)
def test_a_key_alone(location: str, key: str, value: str, meant: dict[str, str]) -> None:
    """It is kept, and what it means to PyIceberg stands beside it; on Azure with the account of the location."""
    account = {"adls.account-name": "account"} if location == ABFS else {}
    assert file_io_properties(location, {key: value}) == {key: value, **meant, **account}


def test_the_nearer_key_wins() -> None:
    """One of the bucket over the general one, and PyIceberg's own over both."""
    general = {"fs.s3a.access.key": "general"}
    own = {**general, "fs.s3a.bucket.b.access.key": "own"}
    assert file_io_properties("s3://b/x", own)["s3.access-key-id"] == "own"
    assert file_io_properties("s3://b/x", {**own, "s3.access-key-id": "mine"})["s3.access-key-id"] == "mine"
    ends = {"fs.azure.account.key": "general", f"fs.azure.account.key.{END}": "own"}
    assert file_io_properties(ABFS, ends)["adls.account-key"] == "own"


def test_an_endpoint_without_scheme_asks_whether_to_encrypt() -> None:
    """S3A's default is yes."""
    properties = {"fs.s3a.endpoint": "minio:9000", "fs.s3a.connection.ssl.enabled": "false"}
    assert file_io_properties("s3a://b/x", properties)["s3.endpoint"] == "http://minio:9000"


@pytest.mark.parametrize(
    ("endpoint", "region"),
    [
        ("s3.us-west-2.amazonaws.com", "us-west-2"),
        ("https://s3-eu-central-1.amazonaws.com", "eu-central-1"),
        ("s3.dualstack.us-gov-east-1.amazonaws.com", "us-gov-east-1"),
        ("s3.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        ("s3.amazonaws.com", None),
        ("s3.us-west-2.example.com", None),
    ],
)
def test_an_endpoint_of_amazon_names_its_region(endpoint: str, region: str | None) -> None:
    """As S3A takes it; the key of the region wins."""
    keys = {"fs.s3a.endpoint": endpoint}
    assert file_io_properties("s3a://b/x", keys).get("s3.region") == region
    keys["fs.s3a.endpoint.region"] = "mine"
    assert file_io_properties("s3a://b/x", keys)["s3.region"] == "mine"


def test_an_azure_endpoint_asks_whether_to_encrypt() -> None:
    """ABFS's default is yes; who names the scheme that encrypts gets it in any case."""
    properties = {"fs.azure.abfs.endpoint": "azurite:10000", "fs.azure.always.use.https": "false"}
    for scheme, meant in (("abfs", "http"), ("wasb", "http"), ("abfss", "https"), ("wasbs", "https")):
        location = f"{scheme}://box@account.dfs.core.windows.net/x"
        assert file_io_properties(location, properties)["adls.account-host"] == f"{meant}://azurite:10000/account"


def test_a_location_in_another_cloud_names_its_own_endpoint_and_keys() -> None:
    """Sovereign clouds are not Azure's central one: neither asked in its place, nor opened by its keys."""
    location = "abfss://box@account.dfs.core.chinacloudapi.cn/x"
    keys = {f"fs.azure.account.key.{END}": "b3RoZXI=", "fs.azure.account.key.account.dfs.core.chinacloudapi.cn": "a2V5"}
    mapped = file_io_properties(location, keys)
    assert (mapped["adls.account-host"], mapped["adls.account-key"]) == ("account.blob.core.chinacloudapi.cn", "a2V5")
    store = Buckets(mapped).of(StoreLocation.parse(location)).store
    assert dict(store.config)["endpoint"] == "https://account.blob.core.chinacloudapi.cn"
    assert "adls.account-host" not in file_io_properties(ABFS, keys)


@pytest.mark.parametrize("prefix", ["google.cloud.auth.service.account", "fs.gs.auth.service.account"])
def test_a_service_account_field_by_field(prefix: str) -> None:
    """It becomes the JSON of a key file; line ends of the key may be written as in a properties file."""
    fields = {f"{prefix}.email": "m@p", f"{prefix}.private.key": "a\\nb", f"{prefix}.private.key.id": "7"}
    account = json.loads(file_io_properties("gs://b/x", fields)["gcs.service-account-json"])
    assert account == {"client_email": "m@p", "private_key": "a\nb", "private_key_id": "7"}


@given(st.dictionaries(st.sampled_from([key for _, key, _, _ in MEANINGS]), st.text(max_size=9)), st.data())
def test_any_keys_together(properties: dict[str, str], data: st.DataObject) -> None:
    """What is given is kept as it is; mapping what was mapped changes nothing; nothing given means nothing."""
    location = data.draw(st.sampled_from(["s3a://b/x", "gs://b/x", ABFS]))
    mapped = file_io_properties(location, properties)
    assert properties.items() <= mapped.items()
    assert file_io_properties(location, mapped) == mapped


@pytest.mark.parametrize(
    ("location", "properties", "kind", "option", "value"),
    [
        ("s3a://b/x", {"fs.s3a.endpoint.region": "eu-west-1"}, S3Store, "region", "eu-west-1"),
        (
            "s3a://b/x",
            {"fs.s3a.endpoint": "http://minio:9000", "fs.s3a.path.style.access": "false"},
            S3Store,
            "endpoint",
            "http://b.minio:9000",
        ),
        ("s3a://b/x", {"fs.s3a.aws.credentials.provider": ANONYMOUS}, S3Store, "skip_signature", True),
        ("gs://b/x", {"fs.gs.auth.type": "UNAUTHENTICATED"}, GCSStore, "skip_signature", True),
        ("gs://b/x", {"gcs.oauth2.token": "t"}, GCSStore, "bucket", "b"),
        (
            ABFS,
            {"fs.azure.abfs.endpoint": "http://azurite:10000"},
            AzureStore,
            "endpoint",
            "http://azurite:10000/account",
        ),
        (ABFS, {f"fs.azure.account.key.{END}": "a2V5"}, AzureStore, "account_key", "a2V5"),
        (ABFS, {f"fs.azure.account.key.{END}": "a2V5"}, AzureStore, "account_name", "account"),
        (ABFS, {f"fs.azure.account.key.{END}": "a2V5"}, AzureStore, "container_name", "box"),
    ],
)
def test_the_client_takes_them(
    location: str,
    properties: dict[str, str],
    kind: type[S3Store | GCSStore | AzureStore],
    option: str,
    value: str,
) -> None:
    """Each store's client is made of them, by its own names."""
    store = Buckets(file_io_properties(location, properties)).of(StoreLocation.parse(location)).store
    assert isinstance(store, kind)
    assert str(dict(store.config)[option]).lower() == str(value).lower()


def test_who_is_anonymous_asks_gcs_itself() -> None:
    """To write, too: not the machine's metadata service first, for a token that nobody wants."""
    keys = {"fs.gs.auth.type": "UNAUTHENTICATED", "fs.gs.storage.root.url": "http://127.0.0.1:1"}
    bucket = Buckets(file_io_properties("gs://b/x", keys)).of(StoreLocation.parse("gs://b/x"))
    with pytest.raises(BaseError, match=r"PUT http://127\.0\.0\.1:1/b/x"):
        obstore.put(bucket.once, "x", b"", mode="create")


def test_properties_that_no_client_takes_are_a_configuration_error() -> None:
    """The error says which properties, and of which store."""
    properties = file_io_properties("gs://b/x", {"fs.gs.auth.service.account.json.keyfile": "/no/such/file"})
    with pytest.raises(ConfigError, match=r"config\.properties do not open gs://b"):
        Buckets(properties).of(StoreLocation.parse("gs://b/x"))
