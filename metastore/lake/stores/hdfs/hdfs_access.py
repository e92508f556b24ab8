"""Finds how an HDFS cluster is reached over HTTP, from Hadoop's own keys, for one location; pure.

A location such as ``hdfs://namenode:8020`` has the address for Hadoop's RPC clients. WebHDFS is the same namenode on
another port, which the keys of ``hdfs-site.xml`` set. Without them it is Hadoop's default port on the same host.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from metastore.errors import ConfigError
from metastore.lake.stores.hadoop_durations import seconds_of
from metastore.lake.stores.locations import StoreLocation

DELEGATION_TOKEN: Final = "hdfs.delegation-token"  # noqa: S105 - the name of a key
"""Key of this package: a token from ``hdfs fetchdt``, for clusters that require authentication."""

_PORTS: Final = {"http": 9870, "https": 9871}
_ADDRESS: Final = re.compile(r"([A-Za-z0-9][\w.-]*|\[[0-9A-Fa-f:.]+\]):(\d{1,5})")
_TIMEOUTS: Final = ("dfs.webhdfs.socket.connect-timeout", "dfs.webhdfs.socket.read-timeout")
_DEFAULT_TIMEOUT: Final = "60s"
_ANY_HOST: Final = "0.0.0.0"  # noqa: S104 - a wildcard bind address, of no use to clients


@dataclass(frozen=True)
class HdfsAccess:
    """The namenodes of one cluster, as ``scheme://host:port`` in the order to try, and the user.

    A token identifies the user, so ``user`` is not sent with it. Timeouts are in seconds.
    """

    namenodes: tuple[str, ...]
    user: str
    token: str | None = field(default=None, repr=False)
    connect_timeout_s: float = 60.0
    read_timeout_s: float = 60.0


def hdfs_access(place: StoreLocation, properties: Mapping[str, str], user: str) -> HdfsAccess:
    """Return how to reach ``place`` by ``properties``; ``user`` is used unless they name another.

    Raises ConfigError for an invalid address or time, and for a nameservice without addresses.
    """
    connect, read = (_seconds(key, properties.get(key) or _DEFAULT_TIMEOUT) for key in _TIMEOUTS)
    return HdfsAccess(
        namenodes=tuple(_namenodes(place, properties)),
        user=properties.get("hdfs.user") or properties.get("hadoop.user.name") or user,
        token=properties.get(DELEGATION_TOKEN) or None,
        connect_timeout_s=connect,
        read_timeout_s=read,
    )


def _namenodes(place: StoreLocation, properties: Mapping[str, str]) -> Iterator[str]:
    """Addresses over HTTP of one namenode, or of all of a nameservice. ConfigError for a missing key."""
    host, _, port = place.authority.partition(":")
    if place.scheme != "hdfs":
        scheme = "https" if place.scheme == "swebhdfs" else "http"
        yield f"{scheme}://{host}:{port or _PORTS[scheme]}"
        return
    scheme = "https" if properties.get("dfs.http.policy") == "HTTPS_ONLY" else "http"
    key = f"dfs.namenode.{scheme}-address"
    names = properties.get(f"dfs.ha.namenodes.{host}", "")
    if names:
        for name in names.split(","):
            own = f"{key}.{host}.{name.strip()}"
            if not properties.get(own):
                raise ConfigError(f"{own} is missing, the address of one of {place.root}'s namenodes over {scheme}")
            yield _address(own, properties[own], scheme, host)
        return
    if host in map(str.strip, properties.get("dfs.nameservices", "").split(",")):
        key = f"{key}.{host}"
        if not properties.get(key):
            raise ConfigError(f"{key} is missing, the address of {place.root}'s namenode over {scheme}")
    yield _address(key, properties.get(key) or f"{host}:{_PORTS[scheme]}", scheme, host)


def _address(key: str, value: str, scheme: str, host: str) -> str:
    match = _ADDRESS.fullmatch(value.strip())
    if match is None:
        raise ConfigError(f"{key} = {value!r}: <host>:<port> is expected")
    return f"{scheme}://{host if match[1] == _ANY_HOST else match[1]}:{match[2]}"


def _seconds(key: str, value: str) -> float:
    seconds = seconds_of(value)
    if not seconds:
        raise ConfigError(f"{key} = {value!r}: a time such as 60s is expected")
    return seconds
