"""Manifests and lists that were read are carried over as they stood, and read as PyIceberg reads them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
from pyiceberg.avro.writer import Writer
from pyiceberg.manifest import ManifestEntryStatus, read_manifest_list
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from metastore.components.metastore import Metastore
from metastore.errors import FormatError
from metastore.lake.iceberg.catalogs.open_tables import FileCache
from metastore.lake.iceberg.manifests import manifest_writer
from metastore.lake.iceberg.manifests.avro_file import encode, encoded_bytes
from metastore.lake.iceberg.manifests.manifest_reader import read_list, read_live_entries
from metastore.lake.iceberg.manifests.manifest_writer import is_settled
from metastore.lake.iceberg.manifests.manifests import Manifests, existing
from metastore.model.table_unit import TableMetadataUnit

MakeUnit = Callable[..., TableMetadataUnit]
OpenMetastore = Callable[..., Metastore]


def table_of(metastore: Metastore) -> Table:
    """The Iceberg table of component tables."""
    table = metastore.tables._backing.table.load()
    assert table is not None
    return table


def newest_list(table: Table) -> str:
    """Where the list of the current version is."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return snapshot.manifest_list


@pytest.fixture
def table(open_metastore: OpenMetastore, unit: MakeUnit) -> Table:
    """A table of several versions: entries that were added, carried over and deleted, in two manifests or more."""
    metastore = open_metastore()
    for number in range(4):
        metastore.tables.modify().overwrite([unit(f"t{number}", key) for key in ("GENERAL_INFO", "a", "b")]).execute()
    metastore.tables.modify().overwrite([unit("t1", "a", owner="another")]).execute()
    metastore.tables.modify().delete("tableName = 't2'").execute()
    return table_of(metastore)


def plain(record: Record) -> list[object]:
    """All fields of a record, inner records by theirs, maps that are decoded on use as what they hold."""
    values = [dict(value) if isinstance(value, Mapping) else value for value in record._data]
    return [plain(value) if isinstance(value, Record) else str(value) for value in values]


def first(records: Sequence[Record], fields: int) -> list[list[object]]:
    """The records without what only format version 3 has."""
    return [plain(one)[:fields] for one in records]


def test_lists_read_as_pyiceberg_reads_them(table: Table) -> None:
    """Every field of every manifest."""
    location = newest_list(table)
    theirs = list(read_manifest_list(table.io.new_input(location)))
    assert first(read_list(table.io, location), len(theirs[0])) == [plain(one) for one in theirs]
    assert theirs


def test_entries_read_as_pyiceberg_reads_them(table: Table) -> None:
    """Every field of every live entry, what it inherits from its manifest included."""
    for manifest in read_list(table.io, newest_list(table)):
        ours, theirs = read_live_entries(table.io, manifest), manifest.fetch_manifest_entry(table.io)
        assert first(ours, 4) == first(theirs, 4)
        files = [one.data_file for one in theirs]
        assert first([one.data_file for one in ours], len(files[0])) == [plain(one) for one in files]
        assert [one.data_file.spec_id for one in ours] == [one.data_file.spec_id for one in theirs]


def test_a_writer_that_has_just_opened_encodes_what_it_changes(
    open_metastore: OpenMetastore, unit: MakeUnit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not what it carries over: of twenty-one data files one is encoded, of the listed manifests the new one.

    Of their entries those that came last, and are carried over from now on, the one that comes, and the one that goes.
    """
    metastore = open_metastore()
    metastore.tables.modify().overwrite([unit(f"t{n}") for n in range(21)]).execute()
    metastore.tables.modify().overwrite([unit("t", "segment")]).execute()
    metastore.tables.modify().overwrite([unit("t1", owner="another")]).execute()
    written = []

    def counting(writer: Writer, record: Record) -> bytes:
        written.append(type(record).__name__)
        return encode(writer, record)

    monkeypatch.setattr("metastore.lake.iceberg.manifests.manifest_writer.encode", counting)
    open_metastore().tables.modify().overwrite([unit("t3", owner="another")]).execute()
    assert written.count("DataFile") == 1, "the file that comes; the one that goes was read"
    assert written.count("ListedManifest") == 1
    assert written.count("ManifestEntry") == 3


def test_bytes_of_another_schema_are_not_carried_over(table: Table) -> None:
    """A record that was read from a file of version 2 is encoded anew for one of version 1."""
    manifest = read_list(table.io, newest_list(table))[0]
    before = encoded_bytes(manifest)
    assert before is not None
    schema, writer = manifest_writer._list_writer(1)
    anew = manifest_writer._once(manifest, schema, lambda one: encode(writer, one))
    assert anew != before.content
    kept = encoded_bytes(manifest)
    assert kept is not None
    assert kept.schema is schema


@pytest.mark.parametrize("position", [1, 2, 3])
def test_an_entry_that_inherits_is_not_carried_over_as_it_stood(table: Table, position: int) -> None:
    """In another manifest it would inherit something else; what it had inherited is written with it."""
    entries = [entry for one in read_list(table.io, newest_list(table)) for entry in read_live_entries(table.io, one)]
    entry = next(entry for entry in entries if entry.status == ManifestEntryStatus.EXISTING)
    assert is_settled(entry)
    assert encoded_bytes(entry) is not None
    entry[position] = None  # snapshot, sequence number, that of the file
    assert not is_settled(entry)
    assert existing(entry) is not entry


@pytest.mark.parametrize("damaged", [slice(0, -1), slice(0, 40), slice(4, None), slice(0, 0)])
def test_a_damaged_list_is_named(table: Table, damaged: slice) -> None:
    """Cut anywhere, without its beginning, or empty."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    path = snapshot.manifest_list.removeprefix("file://")
    with open(path, "rb") as file:
        content = file.read()
    with open(path, "wb") as file:
        file.write(content[damaged])
    with pytest.raises(FormatError, match="cannot be decoded"):
        Manifests(table.io, FileCache(0)).all_of(snapshot)
