"""Peers on an S3 server: PyIceberg with a SQL catalog, whose tables are there, and DuckDB reading files by glob.

The catalog is SQLite on the local disk, so looking for the newest version costs PyIceberg no request. DuckDB's own
extension for S3 (httpfs) is not installed by pip. DuckDB gets the store through fsspec and Arrow's file system instead,
which asks for the size of a file several times; over an Arrow dataset it does not.
"""

from __future__ import annotations

import os
from typing import Final

import duckdb
from fsspec.implementations.arrow import ArrowFSWrapper
from pyarrow.fs import S3FileSystem
from pyiceberg.catalog.sql import SqlCatalog

from demos.s3.process import ACCESS_KEY, REGION, SECRET_KEY, S3Server

PYICEBERG: Final = "PyIceberg, SQL catalog"
DUCKDB: Final = "DuckDB by glob, through fsspec"
DUCKDB_ON_ARROW: Final = "DuckDB over Arrow's dataset"

NAMESPACE: Final = "benchmark"


def client_properties(server: S3Server) -> dict[str, str]:
    """Return Iceberg's properties of a catalog whose tables are on the server."""
    return {
        "s3.endpoint": server.endpoint,
        "s3.region": REGION,
        "s3.access-key-id": ACCESS_KEY,
        "s3.secret-access-key": SECRET_KEY,
    }


def sql_catalog(server: S3Server, bucket: str, folder: str) -> SqlCatalog:
    """Return a catalog in ``folder`` whose tables are in ``bucket``."""
    catalog = SqlCatalog(
        "peer",
        uri=f"sqlite:///{os.path.join(folder, 'peer.db')}",
        warehouse=f"s3://{bucket}/peer",
        **client_properties(server),
    )
    catalog.create_namespace(NAMESPACE)
    return catalog


def arrow_on_s3(server: S3Server) -> S3FileSystem:
    """Return Arrow's file system on the server."""
    return S3FileSystem(
        access_key=ACCESS_KEY,
        secret_key=SECRET_KEY,
        region=REGION,
        endpoint_override=server.endpoint.removeprefix("http://"),
        scheme="http",
    )


def duckdb_on_s3(server: S3Server) -> duckdb.DuckDBPyConnection:
    """Return a connection that reads ``s3://`` from the server."""
    connection = duckdb.connect()
    connection.register_filesystem(_ArrowOnS3(arrow_on_s3(server)))
    return connection


class _ArrowOnS3(ArrowFSWrapper):  # type: ignore[misc] # fsspec has no types
    protocol = "s3"
    root_marker = ""
