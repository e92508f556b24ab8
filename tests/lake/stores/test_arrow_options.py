"""Keys of data on object stores: three vocabularies, one meaning, one precedence."""

from __future__ import annotations

import pytest

from metastore.errors import InvalidRequestError
from metastore.lake.stores.arrow_options import data_properties
from metastore.lake.stores.locations import StoreLocation, one_spelling

S3, GCS = StoreLocation.parse("s3a://box/x"), StoreLocation.parse("gs://box/x")
AZURE = StoreLocation.parse("abfss://box@lake.dfs.core.windows.net/x")


@pytest.mark.parametrize(
    ("place", "hadoop", "of_pyarrow", "meant"),
    [
        (S3, {"fs.s3a.endpoint.region": "r"}, {"region": "r"}, {"s3.region": "r"}),
        (S3, {"fs.s3a.access.key": "k"}, {"access_key": "k"}, {"s3.access-key-id": "k"}),
        (
            S3,
            {"fs.s3a.endpoint": "h:9000", "fs.s3a.connection.ssl.enabled": "false"},
            {"endpoint_override": "h:9000", "scheme": "http"},
            {"s3.endpoint": "http://h:9000"},
        ),
        (S3, {"fs.s3a.endpoint": "h"}, {"endpoint_override": "h"}, {"s3.endpoint": "https://h"}),
        (GCS, {"fs.gs.project.id": "p"}, {"project_id": "p"}, {"gcs.project-id": "p"}),
        (GCS, {"fs.gs.auth.type": "UNAUTHENTICATED"}, {"anonymous": "true"}, {"gcs.anonymous": "true"}),
        (AZURE, {"fs.azure.account.key": "k"}, {"account_key": "k"}, {"adls.account-key": "k"}),
        (
            AZURE,
            {"fs.azure.abfs.endpoint": "h:10000"},
            {"blob_storage_authority": "h:10000"},
            {"adls.account-host": "https://h:10000/lake"},
        ),
    ],
)
def test_vocabularies_say_the_same(
    place: StoreLocation, hadoop: dict[str, str], of_pyarrow: dict[str, str], meant: dict[str, str]
) -> None:
    """Hadoop's keys and pyarrow's options become the same keys of PyIceberg."""
    assert data_properties(place, hadoop).items() >= meant.items()
    assert data_properties(place, of_pyarrow).items() >= meant.items()


def test_the_nearer_vocabulary_wins() -> None:
    """PyIceberg's over pyarrow's over Hadoop's, in any order of the keys."""
    layers = [{"fs.s3a.endpoint.region": "hadoop"}, {"region": "pyarrow"}, {"s3.region": "pyiceberg"}]
    for count, wins in enumerate(("hadoop", "pyarrow", "pyiceberg"), 1):
        keys = [item for layer in layers[:count] for item in layer.items()]
        assert data_properties(S3, dict(keys))["s3.region"] == wins
        assert data_properties(S3, dict(reversed(keys)))["s3.region"] == wins


def test_keys_of_others_pass_and_misspelled_ones_do_not() -> None:
    """Hadoop has hundreds of keys; an option without a dot is meant for nobody else."""
    assert data_properties(S3, {"fs.s3a.threads.max": "9", "fs.s3a.impl": "x"})["fs.s3a.threads.max"] == "9"
    with pytest.raises(InvalidRequestError, match="regoin is no option of s3a.*did you mean region"):
        data_properties(S3, {"regoin": "x"})
    with pytest.raises(InvalidRequestError, match="account_key"):
        data_properties(S3, {"account_key": "x"})


@pytest.mark.parametrize(
    ("spelled", "one"),
    [
        ("s3a://b/k", "s3://b/k"),
        ("s3n://b", "s3://b"),
        ("gcs://b/a b#?", "gs://b/a b#?"),
        ("wasbs://c@a.blob.core.windows.net/k.blob.x", "abfss://c@a.dfs.core.windows.net/k.blob.x"),
        ("abfs://c@a.dfs.core.windows.net/k", "abfss://c@a.dfs.core.windows.net/k"),
        ("az://c@a.blob.core.windows.net/k", "abfss://c@a.dfs.core.windows.net/k"),
        ("hdfs://n:8020/k", "hdfs://n:8020/k"),
        ("webhdfs://n:9870/k", "webhdfs://n:9870/k"),
        ("/local/s3a://b", "/local/s3a://b"),
        ("gopher://x/y", "gopher://x/y"),
    ],
)
def test_one_spelling(spelled: str, one: str) -> None:
    """All spellings of an object have one in common, which is its own; other locations stay."""
    assert one_spelling(spelled) == one == one_spelling(one)
