"""What a reader and a writer say of a store that is broken: an error of ours that names the file or the place."""

from __future__ import annotations

import gc
import gzip
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from metastore.components.metastore import Metastore
from metastore.errors import FormatError, StorageError
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
OpenMetastore = Callable[..., Metastore]


@pytest.fixture(autouse=True)
def streams_of_broken_files_are_collected() -> Iterator[None]:
    """PyIceberg leaves a file open whose header it cannot read; here and not in some later test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def read(metastore: Metastore) -> list[TableMetadataUnit]:
    """Every unit."""
    return metastore.tables.read().metadata_types(MetadataType.ALL).execute()


@pytest.mark.parametrize(
    ("files", "kind"),
    [
        ("metadata/v*.metadata.json", "metadata"),
        ("metadata/snap-*.avro", "manifest"),
        ("metadata/*-m0.avro", "manifest"),
        ("dfs/tmp/nation/*.parquet", "data file"),
    ],
    ids=["version", "manifest list", "manifest", "data"],
)
@pytest.mark.parametrize("content", [b"", b"junk", b"{}", b"Obj\x01", b"PAR1\x15\x15\x02\x00\x00\x00PAR1"], ids=repr)
def test_a_damaged_file_is_named(
    open_metastore: OpenMetastore, unit: MakeUnit, tmp_path: Path, files: str, kind: str, content: bytes
) -> None:
    """Readers and writers that meet it raise FormatError with its path; nothing is changed."""
    open_metastore().tables.modify().overwrite([unit(owner="x" * 300)]).execute()
    damaged = sorted((tmp_path / "metastore/tables").glob(files))
    assert damaged
    for path in damaged:
        path.write_bytes(content)
    with pytest.raises(FormatError, match=damaged[-1].name) as raised:
        read(open_metastore())
    assert kind in str(raised.value)
    if kind != "data file":
        with pytest.raises(FormatError, match=damaged[-1].name):
            open_metastore().tables.modify().overwrite([unit()]).execute()
        assert len(list(tmp_path.rglob("*.parquet"))) == 1


@pytest.mark.parametrize("damaged_at", [0, 40, -1])
def test_damaged_compressed_metadata_is_named(
    open_metastore: OpenMetastore, unit: MakeUnit, tmp_path: Path, damaged_at: int
) -> None:
    """Whatever the decompressor calls it."""
    open_metastore().tables.modify().overwrite([unit()]).execute()
    [*_, newest] = sorted((tmp_path / "metastore/tables/metadata").glob("v*.metadata.json"))
    content = bytearray(gzip.compress(newest.read_bytes()))
    content[damaged_at] ^= 0xFF
    newest.unlink()
    newest.with_name(newest.name.replace(".metadata", ".gz.metadata")).write_bytes(content)
    with pytest.raises(FormatError, match=r"v\d+\.gz\.metadata\.json"):
        read(open_metastore())


@pytest.mark.parametrize("files", ["metadata/snap-*.avro", "metadata/*-m0.avro", "dfs/tmp/nation/*.parquet"])
def test_a_lost_file_of_a_kept_version_is_named(
    open_metastore: OpenMetastore, unit: MakeUnit, tmp_path: Path, files: str
) -> None:
    """It is no expired version: the store lost it, and a reader is told so instead of being given less."""
    open_metastore().tables.modify().overwrite([unit(owner="x" * 300)]).execute()
    [lost] = (tmp_path / "metastore/tables").glob(files)
    lost.unlink()
    with pytest.raises(StorageError, match=lost.name):
        read(open_metastore())


def test_a_place_that_is_no_folder_is_a_storage_error(
    open_metastore: OpenMetastore, unit: MakeUnit, tmp_path: Path
) -> None:
    """For readers as for writers."""
    (tmp_path / "metastore").write_text("a file where the metastore should be")
    metastore = open_metastore()
    with pytest.raises(StorageError, match="tables"):
        read(metastore)
    with pytest.raises(StorageError, match="tables"):
        assert metastore.tables.metadata.version
    with pytest.raises(StorageError, match="tables"):
        metastore.tables.modify().overwrite([unit()]).execute()
