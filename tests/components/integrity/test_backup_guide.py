"""docs/guide/backup.md: its commands are run, one after another, and print what stands there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import metastore
from metastore.session import connect

ROOT = Path(metastore.__file__).parents[1]
GUIDE = (ROOT / "docs/guide/backup.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```console\n(.*?)^```", GUIDE, re.MULTILINE | re.DOTALL)


def steps(block: str) -> list[tuple[str, list[str]]]:
    """Each command of a block, with the lines that it is said to print."""
    found: list[tuple[str, list[str]]] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def bare(line: str) -> str:
    """A line without what only sets columns apart."""
    return " ".join(line.split())


@pytest.mark.exhaustive
def test_the_commands_of_the_guide(tmp_path: Path) -> None:
    """Backup, loss of the whole folder, restore, loss of a version, loss of a data file: as printed, in this order."""
    base, backup, lake = tmp_path / "metastore", tmp_path / "backup", tmp_path / "lake"
    conf = tmp_path / "site.conf"
    conf.write_text(
        f'drill.metastore.iceberg.location {{ base_path = "{tmp_path}", relative_path = metastore }}\n'
        f'drill.metastore.storage.dfs.workspaces.w.location = "{lake}"\n'
    )
    for folder in (lake / "t", lake / "u", backup):
        folder.mkdir(parents=True)
    for table in ("t", "u"):
        pq.write_table(pa.table({"id": [1]}), lake / table / "a.parquet")
    with connect(conf) as ms:
        ms.analyze("dfs.w.t")
        ms.analyze("dfs.w.u")
    prelude = f'metastore() {{ "{sys.executable}" -m metastore.cli --conf "{conf}" "$@"; }}\n'
    where = tmp_path
    assert len(BLOCKS) == 4
    for number, block in enumerate(BLOCKS):
        if number == 1:
            base.rename(tmp_path / "lost")
            where = tmp_path
        for command, said in steps(block):
            here = command.replace("/data/metastore", str(base)).replace("/backup", str(backup))
            if here.startswith("cd "):
                where = Path(here[3:])
                continue
            ran = subprocess.run(["bash", "-c", prelude + here], cwd=where, capture_output=True, text=True, check=False)
            assert ran.returncode == 0, (command, ran.stdout, ran.stderr)
            printed = iter([bare(line) for line in ran.stdout.splitlines()])
            for line in said:
                assert bare(line) in ("…", "") or bare(line) in printed, (command, line, ran.stdout)
    with connect(conf) as ms:
        assert ms.check().findings == ()
