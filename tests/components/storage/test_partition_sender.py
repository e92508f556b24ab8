"""A process stores partitions only if it has the store of the one that commits them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

from metastore.components.metastore import Metastore
from metastore.components.storage.partition_encoder import EncodedPartition, StoredPartition
from metastore.model.mapping.rows import PartitionRows
from metastore.model.vocabulary import MetadataType


def test_another_store_at_the_same_path_is_no_reach(metastore: Metastore) -> None:
    """Neither a missing file proves it, nor one of another table: executors may have a metastore of their own."""
    modify = metastore.tables.modify()
    reach = pickle.loads(pickle.dumps(modify.reach()))  # noqa: S301 - pickled here
    assert reach.is_given()
    path = Path(reach.metadata_location)
    content = path.read_bytes()
    path.write_bytes(content.replace(reach.table_uuid.encode(), b"0" * len(reach.table_uuid)))
    assert not reach.is_given()
    path.rename(f"{path}.gone")
    assert not reach.is_given()
    modify.abandon()


def test_what_is_put_is_committed_or_removed(metastore: Metastore, unit: Callable[..., Any]) -> None:
    """A put file belongs to its transaction: committed with it, and removed when the transaction is abandoned."""
    metastore.tables.modify().overwrite([unit("t")]).execute()
    rows = metastore.tables.read().metadata_types(MetadataType.ALL).to_arrow()
    key = ("dfs", "tmp", "t", rows["metadataKey"][0].as_py())
    paths = []
    for is_committed in (False, True):
        modify = metastore.tables.modify()
        encoded = modify.encoder().encode(PartitionRows(key, rows))
        assert isinstance(encoded, EncodedPartition)
        stored = pickle.loads(pickle.dumps(modify.sender(key))).put(encoded)  # noqa: S301 - pickled here
        assert isinstance(stored, StoredPartition)
        assert Path(stored.location).stat().st_size == stored.size_bytes
        modify.overwrite_encoded([stored])
        if is_committed:
            modify.execute()
        modify.abandon()
        paths.append(Path(stored.location).exists())
    assert paths == [False, True]
    assert metastore.tables.read().metadata_types(MetadataType.ALL).to_arrow().equals(rows)


def test_a_store_that_refuses_leaves_it_to_the_driver(metastore: Metastore, unit: Callable[..., Any]) -> None:
    """A task without the right to write returns no error but the content."""
    metastore.tables.modify().overwrite([unit("t")]).execute()
    rows = metastore.tables.read().metadata_types(MetadataType.ALL).to_arrow()
    key = ("dfs", "tmp", "t", rows["metadataKey"][0].as_py())
    modify = metastore.tables.modify()
    sender = modify.sender(key)
    folder = Path(sender.folder(key))
    folder.rename(f"{folder}.elsewhere")
    folder.write_bytes(b"a file where the folder was")
    assert sender.put(modify.encoder().encode(PartitionRows(key, rows))) is None
    folder.unlink()
    Path(f"{folder}.elsewhere").rename(folder)
    modify.abandon()
