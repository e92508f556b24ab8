"""A store without keys: the error names what is missing, and not the address that the client asked last."""

from __future__ import annotations

import pytest

from metastore.lake.stores.locations import StoreLocation
from metastore.lake.stores.objects.object_store_client import Buckets

ASKED = [
    "Generic S3 error: Error performing PUT http://169.254.169.254/latest/api/token in 4.1s - HTTP error",
    "Generic S3 error: Error performing GET http://169.254.170.2/v2/credentials in 1s - HTTP error",
    "Generic MicrosoftAzure error: Error performing GET http://169.254.169.254/metadata/identity/oauth2/token in 2s",
    "Generic GCS error: Error performing token request: http://metadata.google.internal/computeMetadata/v1 in 2s",
    "Generic GCS error: Error performing GET http://metadata/computeMetadata/v1/instance in 2s",
]


@pytest.mark.parametrize("text", ASKED)
def test_the_metadata_service_is_never_named(text: str) -> None:
    """Its address says nothing to somebody who forgot two variables."""
    said = Buckets({}).of(StoreLocation.parse("s3://bucket/key")).error_text(OSError(text))
    assert said.startswith("no keys found: set them")
    assert "169.254" not in said


def test_another_error_stays() -> None:
    """Also of an endpoint whose name only begins like the service's."""
    text = "Generic S3 error: Error performing GET http://metadata-store.example:9000/bucket in 4s - refused"
    assert Buckets({}).of(StoreLocation.parse("s3://bucket/key")).error_text(OSError(text)) == text
