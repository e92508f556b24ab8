"""Tables of one bucket share its client, with its connections; other properties, or another environment, do not."""

from __future__ import annotations

import pytest

from metastore.lake.stores.locations import StoreLocation
from metastore.lake.stores.objects.object_store_client import Bucket, Buckets
from metastore.lake.stores.objects.object_store_io import ObjectFileIO

OWN = {
    "s3.endpoint": "http://127.0.0.1:1",
    "s3.region": "r",
    "s3.access-key-id": "k",
    "s3.secret-access-key": "s3cret-of-one",
}


def opened(properties: dict[str, str], location: str = "s3://lake/db/t") -> Bucket:
    """The bucket that a FileIO of these properties opens."""
    return ObjectFileIO(properties).buckets.of(StoreLocation.parse(location))


def test_tables_of_one_bucket_share_its_client() -> None:
    """Whatever else their properties say."""
    first = opened({**OWN, "write.format.default": "parquet"})
    assert opened({**OWN, "owner": "me"}, "s3://lake/db/other") is first
    assert Buckets(OWN).of(StoreLocation.parse("s3://lake/x")) is first


def test_other_keys_and_places_have_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Credentials of one table are never used for another's."""
    first = opened(OWN)
    assert opened({**OWN, "s3.secret-access-key": "s3cret-of-another"}) is not first
    assert opened({**OWN, "s3.session-token": "t0ken-of-one"}) is not first
    assert opened({**OWN, "client.region": "elsewhere"}) is not first
    assert opened({**OWN, "s3.connect-timeout": "3"}) is not first
    assert opened(OWN, "s3://another/t") is not first
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    assert opened(OWN) is not first
