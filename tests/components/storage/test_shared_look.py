"""What one question sees of a component that others change meanwhile, and what a writer sees."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from metastore.components.metastore import Metastore
from metastore.components.storage.table import shared_look
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
OpenMetastore = Callable[..., Metastore]


def names(metastore: Metastore) -> list[str]:
    """The tables that are known."""
    return sorted(unit.table_name or "" for unit in metastore.tables.read().metadata_types(MetadataType.ALL).execute())


def test_a_question_reads_one_version(open_metastore: OpenMetastore, unit: MakeUnit) -> None:
    """That which it found first; the next question, and another thread, see what others committed meanwhile."""
    reader, writer = open_metastore(), open_metastore()
    writer.tables.modify().overwrite([unit("a")]).execute()
    with shared_look():
        assert names(reader) == ["a"]
        writer.tables.modify().overwrite([unit("b")]).execute()
        with shared_look():
            assert names(reader) == ["a"]
        assert names(reader) == ["a"]
        with ThreadPoolExecutor(1) as thread:
            assert thread.submit(names, reader).result() == ["a", "b"]
    assert names(reader) == ["a", "b"]


def test_a_question_goes_on_where_its_version_expires(
    open_metastore: OpenMetastore, unit: MakeUnit, tmp_path: Path
) -> None:
    """Its files are gone: the newest version is looked for, and read."""
    reader, writer = open_metastore(cache={"size": 0}), open_metastore()
    writer.tables.modify().overwrite([unit("a")]).execute()
    old = [*tmp_path.rglob("*.avro"), *tmp_path.rglob("*.parquet"), *tmp_path.rglob("v2.metadata.json")]
    with shared_look():
        assert reader.tables.metadata.version
        writer.tables.modify().overwrite([unit("a", owner="new"), unit("b")]).execute()
        newest = writer.tables.backing.table.load(anew=True)
        assert newest is not None
        expired = newest.maintenance.expire_snapshots().by_id(reader.tables.metadata.version)
        expired.commit()
        for path in old:
            path.unlink()
        assert names(reader) == ["a", "b"]


def test_a_writer_sees_the_newest_version(open_metastore: OpenMetastore, unit: MakeUnit) -> None:
    """Also one that commits while it answers a question: nothing of others is lost, and it sees its own."""
    mine, others = open_metastore(), open_metastore()
    mine.tables.modify().overwrite([unit("a")]).execute()
    with shared_look():
        assert names(mine) == ["a"]
        others.tables.modify().overwrite([unit("b")]).execute()
        mine.tables.modify().overwrite([unit("c")]).execute()
    assert names(mine) == names(others) == ["a", "b", "c"]


def test_a_version_that_was_seen_is_read_without_a_look(open_metastore: OpenMetastore, unit: MakeUnit) -> None:
    """Its rows, also after others committed; one that was not seen yet is looked for."""
    mine, others = open_metastore(), open_metastore()
    mine.tables.modify().overwrite([unit("a")]).execute()
    first = mine.tables.metadata.version
    second = others.tables.modify().overwrite([unit("b")]).execute()
    for version, expected in ((first, ["a"]), (second, ["a", "b"]), (first, ["a"])):
        read = mine.tables.read().metadata_types(MetadataType.ALL).at_seen(version)
        assert sorted(each.table_name or "" for each in read.execute()) == expected
