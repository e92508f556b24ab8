"""remove_orphan_files: what is an orphan, what never is, and what an interrupted run leaves."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import Table
from pyiceberg.table.update import SetLocationUpdate
from support.catalog_lake import Lake
from support.snapshots import current

from metastore.engines.engine import LocalEngine
from metastore.errors import InvalidRequestError, ProcedureError
from metastore.ground.epoch import millis_since_epoch
from metastore.lake.iceberg.catalogs.target import TargetTable
from metastore.lake.stores.deletion import Deletion
from metastore.lake.stores.spelling import Spelling
from metastore.lake.stores.trees import StoredFile
from metastore.model.table_unit import TableMetadataUnit
from metastore.procedures.expire.expire import expire_snapshots
from metastore.procedures.files.listed_folders import ListedFolders
from metastore.procedures.files.proof import Proof
from metastore.procedures.files.quarantine import SUFFIX
from metastore.procedures.orphans.orphans import PrefixMismatch, ReachedFiles, orphans
from metastore.procedures.orphans.remove_orphans import OrphanRemoval, remove_orphan_files

OLD_DAYS = 10
HOSTILE = (
    "a b.parquet",
    "a%20b.parquet",
    "a?b.parquet",
    "a#b.parquet",
    "ä.parquet",
    "*.parquet",
    "'q'.parquet",
    "100%",
)


@pytest.fixture
def written(lake: Lake, rows: Callable[..., pa.Table]) -> Table:
    """A table with two data files, ten days old for the procedures."""
    table: Table = lake.table()
    table.append(rows(1))
    table.append(rows(2))
    lake.later(days=OLD_DAYS)
    return table.refresh()


def root(table: Table) -> Path:
    """The table's folder on the disk."""
    return Path(table.metadata.location.removeprefix("file://"))


def put(table: Table, name: str, content: bytes = b"orphan") -> str:
    """A file below the table's folder that nothing reaches; its path."""
    path = root(table) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return str(path)


def ids(table: Table) -> list[int]:
    """The ids in the table, as PyIceberg reads it."""
    found: list[Any] = table.scan().to_arrow()["id"].to_pylist()
    return sorted(found)


def removed(found: list[dict[str, Any]]) -> set[str]:
    """Locations that the procedure says it deleted."""
    return {row["orphan_file_location"] for row in found if row["deleted"]}


def test_deletes_orphans_and_nothing_else(lake: Lake, written: Table) -> None:
    """Files that nothing reaches go, in data and metadata folders; all others stay."""
    before = lake.files()
    stray = {put(written, "data/stray.parquet"), put(written, "metadata/stray.avro"), put(written, "deep/er/x")}
    found = lake.call(remove_orphan_files)
    assert removed(found) == stray
    assert {row["file_size_in_bytes"] for row in found} == {6}
    assert lake.files() == before
    assert ids(lake.table()) == [1, 2]


def test_dry_run_lists_files_and_bytes(lake: Lake, written: Table) -> None:
    """A dry run names the orphans with their sizes, and changes nothing."""
    stray = put(written, "data/stray.parquet", b"12345")
    before = lake.files()
    assert lake.call(remove_orphan_files, dry_run=True) == [
        {"orphan_file_location": stray, "file_size_in_bytes": 5, "deleted": False, "error": None, "put_off": None}
    ]
    assert lake.files() == before


def test_files_of_every_snapshot_and_of_the_log_stay(lake: Lake, rows: Callable[..., pa.Table]) -> None:
    """What only an old snapshot, a tag or a branch reaches is reached, and so are metadata files of the log."""
    table = lake.table()
    table.append(rows(1))
    table.manage_snapshots().create_branch(current(table).snapshot_id, "side").commit()
    table.overwrite(rows(2))
    table.append(rows(3), branch="side")
    table.delete("id = 2")
    lake.later(days=OLD_DAYS)
    before = lake.files()
    assert lake.call(remove_orphan_files) == []
    assert lake.files() == before


def test_young_files_stay(lake: Lake, written: Table) -> None:
    """A file is an orphan only when it was changed last before the bound, strictly."""
    path = put(written, "data/young.parquet")
    bound = lake.now - timedelta(days=5)
    moment = millis_since_epoch(bound) * 1_000_000
    os.utime(path, ns=(moment, moment))
    assert lake.call(remove_orphan_files, older_than=bound) == []
    os.utime(path, ns=(moment - 1, moment - 1))
    assert removed(lake.call(remove_orphan_files, older_than=bound)) == {path}


@pytest.mark.usefixtures("written")
def test_the_floor_is_the_configurations(lake: Lake) -> None:
    """A call cannot ask for younger files than the configuration allows, which is a day by default."""
    with pytest.raises(InvalidRequestError, match="interval less than 1 day, 0:00:00"):
        lake.call(remove_orphan_files, older_than=lake.now - timedelta(hours=23))
    assert lake.call(remove_orphan_files, older_than=lake.now - timedelta(hours=24)) == []


def test_three_days_by_default(lake: Lake, written: Table) -> None:
    """Without a bound, files of the last three days stay."""
    path = put(written, "data/x.parquet")
    moment = lake.now.timestamp() - 2.9 * 86_400
    os.utime(path, (moment, moment))
    assert lake.call(remove_orphan_files) == []


def test_hostile_names(lake: Lake, written: Table) -> None:
    """Names with escapes, spaces, globs and the like: orphans of such names go, and no other file does."""
    before = lake.files()
    strays = {put(written, f"data/{name}") for name in HOSTILE}
    assert removed(lake.call(remove_orphan_files)) == strays
    assert lake.files() == before


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("spelling", ["{}", "file://{}", "file:{}", "file:///{}", "file://localhost{}"])
def test_reached_files_of_hostile_names_stay(
    lake: Lake, rows: Callable[..., pa.Table], name: str, spelling: str
) -> None:
    """A data file of any name, under any spelling of its location, is in use while the table names it."""
    table = lake.table()
    path = str(root(table) / "data" / name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    pq.write_table(rows(7), path)
    assert not list(orphans([StoredFile(path, 1, 0)], reached(spelling.format(path)), PrefixMismatch.ERROR))


def reached(*locations: str, **maps: Any) -> ReachedFiles:
    """What a table reaches that has these locations."""
    found = ReachedFiles(Spelling(**maps))
    found.add(locations)
    return found


@pytest.mark.parametrize(
    ("known", "listed"),
    [
        ("s3a://b/a/x", "s3://b/a/x"),
        ("s3n://b//a///x", "s3://b/a/x"),
        ("s3://b/a%20b", "s3://b/a b"),
        ("s3://b/a%2520b", "s3://b/a b"),
        ("s3://b/./a/../a/x", "s3://b/a/x"),
        ("gcs://b/x", "gs://b/x"),
        ("S3://b/x", "s3://b/x"),
    ],
)
def test_other_spellings_of_one_file(known: str, listed: str) -> None:
    """Schemes that are the same store, escapes, slashes and dots make no other file."""
    assert not list(orphans([StoredFile(listed, 1, 0)], reached(known), PrefixMismatch.ERROR))


def test_prefix_mismatch() -> None:
    """A path under another authority: an error, kept, or an orphan, as the mode says; equal ones are equal."""
    stored = [StoredFile("s3://two/a/x", 1, 0)]
    with pytest.raises(ProcedureError, match="Conflicting authorities/schemes: s3://two and s3://one"):
        list(orphans(stored, reached("s3://one/a/x"), PrefixMismatch.ERROR))
    assert list(orphans(stored, reached("s3://one/a/x"), PrefixMismatch.IGNORE)) == []
    assert list(orphans(stored, reached("s3://one/a/x"), PrefixMismatch.DELETE)) == stored
    same = reached("s3://one/a/x", equal_authorities={"one,two": "one"})
    assert list(orphans(stored, same, PrefixMismatch.ERROR)) == []
    same = reached("oss://two/a/x", equal_schemes={"oss": "s3"})
    assert list(orphans(stored, same, PrefixMismatch.DELETE)) == []


@pytest.mark.usefixtures("written")
def test_an_unknown_mode(lake: Lake) -> None:
    """There are three modes."""
    with pytest.raises(InvalidRequestError, match="one of ERROR, IGNORE, DELETE, not 'KEEP'"):
        lake.call(remove_orphan_files, prefix_mismatch_mode="KEEP")


def test_a_table_behind_a_link(lake: Lake, written: Table, tmp_path: Path) -> None:
    """A folder that has two names by a link is one folder: nothing that the table reaches is lost."""
    real = root(written)
    moved = tmp_path / "elsewhere"
    real.rename(moved)
    real.symlink_to(moved)
    before = {str(path) for path in moved.rglob("*")}
    stray = put(written, "data/stray.parquet")
    assert removed(lake.call(remove_orphan_files)) == {stray}
    assert {str(path) for path in moved.rglob("*")} == before


def test_links_are_not_followed(lake: Lake, written: Table, tmp_path: Path) -> None:
    """A folder outside that a link leads to is not listed; a link to a file is a file, and goes without its target."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "theirs").write_bytes(b"x")
    (root(written) / "data" / "link").symlink_to(outside)
    (root(written) / "data" / "one").symlink_to(outside / "theirs")
    assert removed(lake.call(remove_orphan_files)) == {str(root(written) / "data" / "one")}
    assert (outside / "theirs").exists()


def test_hidden_files_stay(lake: Lake, written: Table) -> None:
    """Names that begin with a dot or an underscore are others' scratch, unless a partition column's name does."""
    hidden = [put(written, "data/_temporary/x"), put(written, "data/.tmp"), put(written, "_delta/y")]
    assert lake.call(remove_orphan_files) == []
    with written.update_spec() as spec:
        spec.add_field("city", "identity", "_part")
    shown = put(written, "data/_part=7/x")
    assert removed(lake.call(remove_orphan_files)) == {shown}
    assert all(os.path.exists(path) for path in hidden)


def test_a_table_inside_the_folder_of_another(lake: Lake, written: Table, rows: Callable[..., pa.Table]) -> None:
    """Files of a table that lies below this one's folder are not this one's orphans."""
    inner = lake.table("inner", location=f"{written.metadata.location}/nested/inner")
    inner.append(rows(5))
    stray = put(written, "nested/stray")
    assert removed(lake.call(remove_orphan_files)) == {stray}
    assert ids(lake.table("inner")) == [5]


def test_only_below_the_location(lake: Lake, written: Table) -> None:
    """A location below the table's folders is looked through, one that is not is refused."""
    put(written, "data/a")
    inside = put(written, "data/part/b")
    assert removed(lake.call(remove_orphan_files, location=str(root(written) / "data/part"))) == {inside}
    with pytest.raises(InvalidRequestError, match="is not below"):
        lake.call(remove_orphan_files, location=str(root(written).parent))


@pytest.mark.parametrize("by", ["call", "configuration", "location"])
def test_folders_that_properties_name(lake: Lake, rows: Callable[..., pa.Table], tmp_path: Path, by: str) -> None:
    """Where data is written elsewhere, orphans are looked for there only if the operator allows it."""
    places = {"write.data.path": f"file://{tmp_path}/d/t", "write.metadata.path": f"file://{tmp_path}/m"}
    table = lake.table(properties=places)
    table.append(rows(1))
    lake.later(days=OLD_DAYS)
    stray, other = tmp_path / "d/t/stray", tmp_path / "m/stray"
    for path in (stray, other):
        path.write_bytes(b"x")
    with pytest.raises(ProcedureError, match="only the table itself says that .* is its own"):
        lake.call(remove_orphan_files)
    allowed = f"file://{tmp_path}/d"
    if by == "configuration":
        settings = lake.context.settings
        procedures = replace(settings.procedures, allowed_locations=(allowed,))
        lake.context = replace(lake.context, settings=replace(settings, procedures=procedures))
    by_call: dict[str, dict[str, Any]] = {
        "call": {"allowed_locations": [allowed]},
        "location": {"location": str(stray.parent)},
    }
    given = by_call.get(by, {})
    assert removed(lake.call(remove_orphan_files, **given)) == {str(stray)}
    assert other.exists()
    assert ids(lake.table()) == [1]


def test_a_folder_of_others_is_not_its_own_by_location_and_property_together(
    lake: Lake, rows: Callable[..., pa.Table], tmp_path: Path
) -> None:
    """A property leads below the location only where that is proven: a writer of the table sets both."""
    home = tmp_path / "others"
    places = {"write.metadata.path": f"file://{tmp_path}/mine", "write.data.path": f"file://{home}/data"}
    table = lake.table(location=f"file://{home}", properties=places)
    table.append(rows(1))
    lake.later(days=OLD_DAYS)
    of_others = home / "data" / "report.parquet"
    of_others.write_bytes(b"x")
    with pytest.raises(ProcedureError, match="only the table itself says that .* is its own"):
        lake.call(remove_orphan_files)
    assert of_others.exists()
    assert removed(lake.call(remove_orphan_files, allowed_locations=[f"file://{home}"])) == {str(of_others)}


def test_gc_disabled(lake: Lake, written: Table) -> None:
    """Files of a table that says gc.enabled=false may be others'."""
    written.transaction().set_properties({"gc.enabled": "FALSE"}).commit_transaction()
    with pytest.raises(ProcedureError, match="Cannot remove orphan files: GC is disabled"):
        lake.call(remove_orphan_files, dry_run=True)


def test_a_missing_manifest_proves_nothing(lake: Lake, written: Table) -> None:
    """When metadata that the table needs is missing, nothing is deleted."""
    stray = put(written, "data/stray.parquet")
    head = written.current_snapshot()
    assert head is not None
    [manifest, *_] = head.manifests(written.io)
    os.unlink(manifest.manifest_path.removeprefix("file://"))
    with pytest.raises(Exception, match="is missing"):
        lake.call(remove_orphan_files)
    assert os.path.exists(stray)


def test_nothing_known_below_the_folder(lake: Lake, written: Table, tmp_path: Path) -> None:
    """When no reached file is found where the table says that it lies, names are not trusted."""
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "x").write_bytes(b"x")
    lake.catalog.commit_table(written.refresh(), (), (SetLocationUpdate(location=f"file://{copy}"),))
    for path in (copy / "metadata").glob("*"):
        path.unlink()
    with pytest.raises(Exception, match="none of the|does not exist|No such file"):
        lake.call(remove_orphan_files)


def removal_of(lake: Lake, target: TargetTable) -> OrphanRemoval:
    """A run on ``target`` that takes every file for old, on one process."""
    engine = LocalEngine(1)
    proof = Proof(lake.catalogs, target, lambda _: engine)
    return OrphanRemoval(
        target, proof, lake.clock.ms, lambda _: engine, ListedFolders(str(target), Spelling()), lake.metastore.deletions
    )


class Slow:
    """A target that others commit to between its loads: ``before[n]`` is run before the n-th."""

    def __init__(self, target: TargetTable, before: dict[int, Any]) -> None:
        self._target = target
        self._before = before
        self._loads = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def __str__(self) -> str:
        return str(self._target)

    def load(self) -> Table:
        """The table, after what is to happen before."""
        self._loads += 1
        self._before.get(self._loads, lambda: None)()
        return self._target.load()


@pytest.mark.parametrize("load", [2, 3])
def test_a_file_committed_meanwhile_stays(lake: Lake, written: Table, rows: Callable[..., pa.Table], load: int) -> None:
    """A file that a writer commits after the listing, or after the first look at the metadata, is not deleted."""
    late = put(written, "data/late.parquet")
    pq.write_table(rows(8), late)
    stray = put(written, "data/stray.parquet")
    target: Any = Slow(
        lake.catalogs.table("lake", "default", "t"), {load: lambda: lake.table().add_files([f"file://{late}"])}
    )
    assert removed(removal_of(lake, target).run()) == {stray}
    assert ids(lake.table()) == [1, 2, 8]


@pytest.mark.parametrize("load", [2, 3])
def test_what_expires_while_it_is_read_is_read_anew(
    lake: Lake, written: Table, monkeypatch: pytest.MonkeyPatch, load: int
) -> None:
    """An expiration that takes manifest lists away under the run, at either look, is no damage."""
    stray = put(written, "data/stray.parquet")
    target: Any = Slow(
        lake.catalogs.table("lake", "default", "t"), {load: lambda: written.append(written.scan().to_arrow())}
    )
    reach = OrphanRemoval._reach
    left = [lambda: lake.call(expire_snapshots, older_than=lake.now + timedelta(days=1))]

    def expires(self: OrphanRemoval, table: Table, *arguments: Any) -> Any:
        if target._loads == load and left:
            left.pop()()
        return reach(self, table, *arguments)

    monkeypatch.setattr(OrphanRemoval, "_reach", expires)
    found = removed(removal_of(lake, target).run())
    assert left == []
    assert found == {stray}


def test_an_interrupted_run_is_completed(lake: Lake, written: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run that dies leaves its list; the next one deletes what that names, even if it asks for older files alone."""
    strays = {put(written, f"data/{n}") for n in range(3)}

    def dies(_: Deletion, locations: Any) -> Any:
        os.unlink(next(iter(locations)))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Deletion, "run", dies)
        with pytest.raises(KeyboardInterrupt):
            lake.call(remove_orphan_files)
    assert [path for path in lake.files() if path.endswith(SUFFIX)]
    left = removed(lake.call(remove_orphan_files, older_than=lake.now - timedelta(days=300)))
    assert len(left) == 2
    assert left < strays
    assert not [path for path in lake.files() if path.endswith(SUFFIX)]


def test_lists_that_say_nothing(lake: Lake, written: Table) -> None:
    """A list that was not written to its end, or that is not a list at all, is an orphan like any other file."""
    broken = put(written, f"metadata/orphans-1{SUFFIX}", b"PAR1")
    assert removed(lake.call(remove_orphan_files)) == {broken}


def test_components_keep_their_version_files(lake: Lake, unit: Callable[..., TableMetadataUnit]) -> None:
    """Of the metastore's own tables orphans go, but version files stay: only their expiration may delete them."""
    tables = lake.metastore.tables
    for _ in range(3):
        tables.modify().overwrite([unit("one")]).execute()
    lake.later(days=OLD_DAYS)
    location = lake.folder / "metastore/tables"
    versions = set(location.glob("metadata/v*.metadata.json"))
    (location / "stray.parquet").write_bytes(b"x")
    (location / "metadata/v0.metadata.json").write_bytes(b"x")
    found = lake.call(remove_orphan_files, table="tables", schema="components", catalog="metastore")
    assert removed(found) == {str(location / "stray.parquet")}
    assert versions < set(location.glob("metadata/v*.metadata.json"))


def test_the_listing_meets_every_file(lake: Lake, written: Table) -> None:
    """Deep and wide folders are listed to the bottom, those shared out to tasks too."""
    strays = {put(written, f"data/{a}/{b}/c/d/e/f") for a in range(9) for b in range(9)}
    assert removed(lake.call(remove_orphan_files)) == strays
