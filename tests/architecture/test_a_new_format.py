"""A format of files is added by a module with its record and one line that names it; nothing else knows the formats."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "metastore"

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


def test_a_module_and_a_line(tmp_path: Path) -> None:
    """A copy of the package with one module more finds, analyzes, prunes and reads files of the new format."""
    copy = tmp_path / "code/metastore"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / "lake/formats/fixed_files.py").write_text(MODULE)
    names = copy / "lake/formats/names.py"
    text = names.read_text().replace("    JSON_FILES,\n)", "    JSON_FILES,\n    FIXED_FILES,\n)")
    imported = "from metastore.lake.formats.fixed_files import FIXED_FILES\nfrom metastore.lake.formats.orc."
    names.write_text(text.replace("from metastore.lake.formats.orc.", imported))
    (tmp_path / "lake/t").mkdir(parents=True)
    (tmp_path / "lake/t/a.fix").write_text("0001one\n0002two\n")
    (tmp_path / "lake/t/b.fix").write_text("0007seven\n")
    command = [sys.executable, "-c", USE, str(tmp_path / "lake")]
    environ = {**os.environ, "PYTHONPATH": str(tmp_path / "code")}
    done = subprocess.run(command, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines() == ["['b.fix']", "[{'name': 'seven'}]"], done.stderr
