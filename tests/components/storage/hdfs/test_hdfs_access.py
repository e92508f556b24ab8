"""Hadoop's keys say over which address a cluster is asked, as whom, and for how long; no cluster is needed to tell."""

from __future__ import annotations

import getpass

import pytest

from metastore.errors import ConfigError, StorageError
from metastore.lake.stores.hdfs.hdfs_access import HdfsAccess, hdfs_access
from metastore.lake.stores.hdfs.webhdfs import Clusters
from metastore.lake.stores.locations import StoreLocation

HA = {
    "dfs.nameservices": "pond, lake",
    "dfs.ha.namenodes.lake": "one, two",
    "dfs.namenode.http-address.lake.one": "a.example:50070",
    "dfs.namenode.http-address.lake.two": "b.example:50070",
    "dfs.namenode.https-address.lake.one": "a.example:50470",
    "dfs.namenode.https-address.lake.two": "b.example:50470",
}
"""Two namenodes of one cluster, as ``hdfs-site.xml`` names them."""


def access(location: str, **properties: str) -> HdfsAccess:
    """How the location is reached; keys are written with double underscores for dots and single ones for dashes."""
    return hdfs_access(StoreLocation.parse(location), properties, "somebody")


@pytest.mark.parametrize(
    ("location", "properties", "namenodes"),
    [
        ("hdfs://nn:8020/x", {}, ["http://nn:9870"]),
        ("hdfs://nn/x", {}, ["http://nn:9870"]),
        ("hdfs://nn:8020/x", {"dfs.namenode.http-address": "web:50070"}, ["http://web:50070"]),
        ("hdfs://nn:8020/x", {"dfs.namenode.http-address": "0.0.0.0:50070"}, ["http://nn:50070"]),
        ("hdfs://nn:8020/x", {"dfs.namenode.http-address": "[::1]:50070"}, ["http://[::1]:50070"]),
        ("hdfs://nn:8020/x", {"dfs.http.policy": "HTTPS_ONLY"}, ["https://nn:9871"]),
        ("hdfs://nn:8020/x", {"dfs.http.policy": "HTTP_AND_HTTPS"}, ["http://nn:9870"]),
        (
            "hdfs://nn:8020/x",
            {"dfs.http.policy": "HTTPS_ONLY", "dfs.namenode.https-address": "web:443"},
            ["https://web:443"],
        ),
        ("hdfs://lake/x", HA, ["http://a.example:50070", "http://b.example:50070"]),
        (
            "hdfs://lake/x",
            {**HA, "dfs.http.policy": "HTTPS_ONLY"},
            ["https://a.example:50470", "https://b.example:50470"],
        ),
        ("hdfs://pond/x", {**HA, "dfs.namenode.http-address.pond": "c.example:50070"}, ["http://c.example:50070"]),
        ("webhdfs://web:50070/x", HA, ["http://web:50070"]),
        ("webhdfs://web/x", {}, ["http://web:9870"]),
        ("swebhdfs://web/x", {}, ["https://web:9871"]),
    ],
)
def test_namenodes(location: str, properties: dict[str, str], namenodes: list[str]) -> None:
    """One address, or those of each namenode of a nameservice; Hadoop's default ports where nothing is said."""
    assert list(access(location, **properties).namenodes) == namenodes


@pytest.mark.parametrize(
    ("properties", "said"),
    [
        ({"dfs.namenode.http-address": "nn"}, r"dfs\.namenode\.http-address = 'nn': <host>:<port>"),
        ({"dfs.namenode.http-address": "http://nn:1"}, r"<host>:<port> is expected"),
        ({"dfs.webhdfs.socket.read-timeout": "soon"}, r"read-timeout = 'soon': a time such as 60s"),
        ({"dfs.webhdfs.socket.connect-timeout": "0"}, r"connect-timeout = '0'"),
        ({"dfs.nameservices": "lake"}, r"dfs\.namenode\.http-address\.lake is missing"),
        ({"dfs.ha.namenodes.lake": "one"}, r"dfs\.namenode\.http-address\.lake\.one is missing"),
    ],
)
def test_what_says_nothing_is_refused(properties: dict[str, str], said: str) -> None:
    """The error names the key."""
    with pytest.raises(ConfigError, match=said):
        access("hdfs://lake/x", **properties)


def test_who_asks() -> None:
    """PyIceberg's key wins over Hadoop's, and both over what the machine says; a token is never shown."""
    assert access("hdfs://nn/x").user == "somebody"
    assert access("hdfs://nn/x", **{"hadoop.user.name": "drill"}).user == "drill"
    assert access("hdfs://nn/x", **{"hadoop.user.name": "drill", "hdfs.user": "spark"}).user == "spark"
    found = access("hdfs://nn/x", **{"hdfs.delegation-token": "Zq7recognisable"})
    assert found.token == "Zq7recognisable"
    assert "Zq7" not in repr(found)


@pytest.mark.parametrize(("said", "seconds"), [("1500", 1.5), ("1500ms", 1.5), ("90s", 90.0), ("2m", 120.0)])
def test_times_are_written_as_hadoop_has_them(said: str, seconds: float) -> None:
    """Without a unit they are milliseconds."""
    found = access("hdfs://nn/x", **{"dfs.webhdfs.socket.read-timeout": said})
    assert (found.read_timeout_s, found.connect_timeout_s) == (seconds, 60.0)


@pytest.mark.parametrize(
    "location",
    ["hdfs:///x", "hdfs://user:Zq7@nn/x", "hdfs://nn:port/x", "hdfs://nn/a/../b", "hdfs://nn/./b", "viewfs://a/b"],
)
def test_locations_that_are_nowhere(location: str) -> None:
    """No host, credentials, steps that lead elsewhere, and views of several clusters; secrets are not repeated."""
    with pytest.raises(StorageError) as raised:
        access(location)
    assert "Zq7" not in str(raised.value)


def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers run under numbers that nobody has entered: the cluster is asked as that number."""

    def nameless() -> str:
        raise KeyError("getpwuid(): uid not found: 12345")

    monkeypatch.setattr(getpass, "getuser", nameless)
    monkeypatch.delenv("HADOOP_USER_NAME", raising=False)
    _, path = Clusters({}).at("hdfs://nn/x/y")
    assert path == "/x/y"
