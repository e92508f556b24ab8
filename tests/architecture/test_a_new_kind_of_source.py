"""A kind of source is added by a module with its finder and one line that says what its settings have."""

from __future__ import annotations

from pathlib import Path

from support.extended_package import Extension, printed_with

MODULE = '''
"""Tables that a text file lists: a name and a folder on each line."""

from dataclasses import replace
from pathlib import Path

from metastore.errors import NotFoundError


def listed_table(source, plugin, resources):
    lines = Path(plugin.connection).read_text().splitlines()
    folders = dict(line.split("=") for line in lines)
    if source.table.name not in folders:
        raise NotFoundError(f"{plugin.connection} lists no table {source.table.name}")
    return replace(source, location=folders[source.table.name])
'''

LINE = '    PluginKind("list", "listed tables", "metastore.sources.listed:listed_table", connection="file"),'

USE = """
import sys
from metastore import connect
from metastore.config import Settings
from metastore.errors import NotFoundError

folder = sys.argv[1]
given = {"iceberg.location.base_path": folder + "/metastore", "storage.l": {"type": "list", "file": folder + "/tables"}}
with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as ms:
    ms.analyze("l.any.t")
    print([kept.path.rpartition("/")[2] for kept in ms.prune("l.any.t", "id > 5").files])
    print(ms.sql("SELECT name FROM l.any.t WHERE id > 5 ORDER BY id").to_pylist())
    try:
        ms.analyze("l.any.u")
    except NotFoundError as error:
        print(error)
"""


EXTENSION = Extension("sources/listed.py", MODULE, "config/plugins.py", {'    PluginKind("delta",': LINE})


def test_a_module_and_a_line(tmp_path: Path) -> None:
    """A copy of the package finds, analyzes, prunes and reads tables of a kind that it did not know."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/a.csv").write_text("id,name\n1,one\n2,two\n")
    (tmp_path / "elsewhere/b.csv").write_text("id,name\n7,seven\n")
    (tmp_path / "tables").write_text(f"t={tmp_path / 'elsewhere'}\n")
    printed = printed_with(EXTENSION, USE, tmp_path, str(tmp_path))
    assert printed == ["['b.csv']", "[{'name': 'seven'}]", f"{tmp_path}/tables lists no table u"]
