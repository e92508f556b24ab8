"""A format of files is added by a module with its record and one line that names it; nothing else knows the formats."""

from __future__ import annotations

from pathlib import Path

from support.extended_package import Extension, printed_with

MODULE = '''
"""Files of fixed width: two columns, a number of four digits and a text."""

import pyarrow as pa

from metastore.lake.formats.file_format import FileData, FileFormat

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string())])


def open_fixed(source, _opening):
    def batches(names):
        lines = source().read().decode().splitlines()
        columns = {"id": [int(line[:4]) for line in lines], "name": [line[4:].strip() for line in lines]}
        chosen = pa.schema([SCHEMA.field(name) for name in names])
        yield pa.RecordBatch.from_pydict({name: columns[name] for name in names}, chosen)

    return FileData(SCHEMA, batches)


FIXED_FILES = FileFormat("FIXED", ("fix",), open_fixed, is_text=True)
'''

USE = """
import sys
from metastore import connect
from metastore.config import Settings

folder = sys.argv[1]
given = {"iceberg.location.base_path": folder + "/metastore", "storage.dfs.workspaces.w.location": folder}
with connect(Settings.from_mapping({"drill.metastore": given}, environ={})) as ms:
    ms.analyze("dfs.w.t")
    print([kept.path.rpartition("/")[2] for kept in ms.prune("dfs.w.t", "id > 5").files])
    print(ms.sql("SELECT name FROM dfs.w.t WHERE id > 5 ORDER BY id").to_pylist())
"""


EXTENSION = Extension(
    "lake/formats/fixed_files.py",
    MODULE,
    "lake/formats/names.py",
    {
        "    JSON_FILES,\n)": "    FIXED_FILES,",
        "from metastore.lake.formats.orc.": "from metastore.lake.formats.fixed_files import FIXED_FILES",
    },
)


def test_a_module_and_a_line(tmp_path: Path) -> None:
    """A copy of the package with one module more finds, analyzes, prunes and reads files of the new format."""
    (tmp_path / "lake/t").mkdir(parents=True)
    (tmp_path / "lake/t/a.fix").write_text("0001one\n0002two\n")
    (tmp_path / "lake/t/b.fix").write_text("0007seven\n")
    printed = printed_with(EXTENSION, USE, tmp_path, str(tmp_path / "lake"))
    assert printed == ["['b.fix']", "[{'name': 'seven'}]"]
