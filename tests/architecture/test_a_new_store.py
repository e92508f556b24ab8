"""A store is added by a module that opens it and one line that names it; nothing else knows the stores."""

from __future__ import annotations

from pathlib import Path

from support.extended_package import Extension, printed_with

MODULE = '''
"""Drawers: folders of the local disk under another name, ``drawer://chest/path``."""

import os

import pyarrow.fs as pafs

from metastore.lake.stores.local import LocalFile, remove
from metastore.lake.stores.pointer_store import LocalPointers
from metastore.lake.stores.store_files import StoreFiles


def key_of(location):
    return location.partition("://")[2].partition("/")[2]


def inside(location):
    return f"{os.environ['CHEST']}/{key_of(location)}"


class Item(LocalFile):
    def __init__(self, location):
        super().__init__(location)
        self._path = inside(location)


class DrawerFiles(StoreFiles):
    def new_input(self, location):
        return Item(location)

    def new_output(self, location):
        return Item(location)

    def delete(self, location):
        remove(inside(location if isinstance(location, str) else location.location))

    def arrow_paths(self, locations):
        chest = pafs.SubTreeFileSystem(os.environ["CHEST"], pafs.LocalFileSystem())
        return chest, [key_of(location) for location in locations]


class DrawerPointers(LocalPointers):
    def identities(self, locations):
        return super().identities([inside(each) for each in locations])

    def identities_in(self, folder, names):
        return super().identities([f"{inside(folder)}/{name}" for name in names])

    def read(self, location, most=1 << 20):
        return super().read(inside(location), most)

    def create_if_absent(self, location, content):
        return super().create_if_absent(inside(location), content)

    def replace(self, location, content):
        super().replace(inside(location), content)

    def remove(self, location):
        super().remove(inside(location))

    def entries(self, folder):
        return super().entries(inside(folder))

    def files_after(self, folder, name):
        return super().files_after(inside(folder), name)

    def make_folder(self, folder):
        super().make_folder(inside(folder))


def open_files(location, properties):
    return DrawerFiles(dict(properties))


def open_pointers(location, files):
    return DrawerPointers()


def open_data(location, options):
    system, [path] = DrawerFiles().arrow_paths([location])
    return system, path
'''

LINE = '    Store("drawer", ("drawer",), _BUCKET, "the name of a chest", "metastore.lake.stores.drawers"),'

USE = """
from metastore import connect
from metastore.config import Settings

given = {
    "iceberg.location.base_path": "drawer://chest/metastore",
    "storage.dfs": {"connection": "drawer://chest", "workspaces.w.location": "/lake"},
    "catalogs.lake": {"type": "filesystem", "warehouse": "drawer://chest/warehouse"},
}
with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as ms:
    ms.analyze("dfs.w.t")
    print([kept.path for kept in ms.prune("dfs.w.t", "id > 5").files])
    print(ms.sql("SELECT name FROM dfs.w.t WHERE id > 5 ORDER BY id").to_pylist())
    ms.sql("CREATE SCHEMA lake.db")
    ms.sql("CREATE TABLE lake.db.t (id BIGINT)")
    ms.sql("INSERT INTO lake.db.t VALUES (1), (2)")
    ms.sql("DELETE FROM lake.db.t WHERE id = 1")
    print(ms.sql("SELECT id FROM lake.db.t").to_pylist())
    print(ms.sql("CALL lake.system.remove_orphan_files(table => 'db.t', dry_run => true)").num_rows)
"""


EXTENSION = Extension("lake/stores/drawers.py", MODULE, "lake/stores/locations.py", {'    Store("hdfs",': LINE})


def test_a_module_and_a_line(tmp_path: Path) -> None:
    """A copy of the package keeps its metastore, plain files and an Iceberg table on a store that it did not know."""
    chest = tmp_path / "chest"
    (chest / "lake/t").mkdir(parents=True)
    (chest / "lake/t/a.csv").write_text("id,name\n1,one\n2,two\n")
    (chest / "lake/t/b.csv").write_text("id,name\n7,seven\n")
    printed = printed_with(EXTENSION, USE, tmp_path, CHEST=str(chest))
    assert printed == ["['drawer://chest/lake/t/b.csv']", "[{'name': 'seven'}]", "[{'id': 2}]", "0"]
    assert [each.name for each in sorted(chest.iterdir())] == ["lake", "metastore", "warehouse"]
