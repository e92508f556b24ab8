"""The bucket that `object_store` measures: metastores, their metadata in a peer's table, and a table of small files.

Everything is built before latency is added. A metastore has few tables: what a request costs is the question, not what
stands on the store.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from io import BytesIO
from itertools import count
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq
from obstore.store import S3Store
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import clear_manifest_cache
from pyiceberg.table import Table

from benchmarks.content import Content
from benchmarks.peers.on_s3 import NAMESPACE, sql_catalog
from demos.s3.process import S3Server
from metastore.components.metastore import Metastore
from metastore.config.settings import Settings
from metastore.model.mapping.schema import iceberg_schema, partition_spec
from metastore.model.table_unit import TableMetadataUnit
from metastore.session import Session, connect

DATA_TABLE: Final = "lake.w.t"
DIRECTORIES: Final = 10
ROWS_OF_A_FILE: Final = 10

_BUCKET: Final = "lake"
_DATA: Final = "data/t"


class LakeOnS3:
    """A bucket on ``server`` with ``tables`` tables of metadata and ``files`` data files; a catalog in ``folder``."""

    def __init__(self, server: S3Server, folder: str, content: Content, tables: int, files: int) -> None:
        self.server = server
        self.content = content
        self.files = files
        self._names = count()
        self._store: S3Store = server.create_bucket(_BUCKET)
        self.catalog: SqlCatalog = sql_catalog(server, _BUCKET, folder)
        for number in range(files):
            self.write_file(number)
        rows = content.tables(range(tables))
        with self.metastore() as ours:
            ours.tables.modify().overwrite(rows).execute()
        self.new_units("units").append(rows)
        self.new_data_table("data").add_files(self.data_paths)

    @property
    def data_location(self) -> str:
        """Bucket and directory of the data files."""
        return f"{_BUCKET}/{_DATA}"

    @cached_property
    def data_paths(self) -> list[str]:
        """The data files in the peer's spelling."""
        return [f"s3://{_BUCKET}/{_key(number)}" for number in range(self.files)]

    def write_file(self, number: int, more: int = 0) -> None:
        """Write the data file ``number``: ten values that follow those of the file before, and ``more`` of the last."""
        values = [number * ROWS_OF_A_FILE + each for each in range(ROWS_OF_A_FILE)]
        content = BytesIO()
        # Plain values: each one more makes the file longer, so a change within a second is one, too.
        pq.write_table(pa.table({"x": values + values[-1:] * more}), content, use_dictionary=False, compression="none")
        self._store.put(_key(number), content.getvalue())

    def metastore(self, name: str = "ours") -> Metastore:
        """Open the metastore ``name`` anew."""
        return Metastore.open(self._settings(name))

    def session(self, name: str = "analyzed") -> Session:
        """Open a session on the metastore ``name`` anew."""
        return connect(self._settings(name))

    def new_name(self) -> str:
        """A name that nothing has yet."""
        return f"new_{next(self._names)}"

    def new_units(self, name: str) -> Table:
        """A new empty table of the peer for metadata."""
        schema, spec = iceberg_schema(TableMetadataUnit), partition_spec(TableMetadataUnit)
        return self.catalog.create_table((NAMESPACE, name), schema, partition_spec=spec)

    def new_data_table(self, name: str) -> Table:
        """A new empty table of the peer for data files."""
        return self.catalog.create_table((NAMESPACE, name), pa.schema({"x": pa.int64()}))

    def loader(self, name: str) -> Callable[[], Table]:
        """Forget what the peer's process remembers; return what loads its table ``name``."""
        clear_manifest_cache()
        return lambda: self.catalog.load_table((NAMESPACE, name))

    def _settings(self, name: str) -> Settings:
        keys = {f'"{key}"': value for key, value in self.server.hadoop().items()}
        root = f"s3a://{_BUCKET}"
        iceberg = {"location": {"base_path": root, "relative_path": name}, "config.properties": keys}
        plugin = {"type": "file", "connection": root, "workspaces.w.location": "/data", "config": keys}
        drill = {"engine.kind": "local", "iceberg": iceberg, "storage.lake": plugin}
        return Settings.from_mapping({"drill.metastore": drill}, environ={})


def _key(number: int) -> str:
    return f"{_DATA}/k={number % DIRECTORIES}/{number}.parquet"
