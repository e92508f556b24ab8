"""A copy of the package with one module more and one line that names it, and what a program over the copy prints."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "metastore"


@dataclass(frozen=True)
class Extension:
    """The ``module``, a path below the package, has ``text``; in ``table``, each of ``lines`` comes before its mark."""

    module: str
    text: str
    table: str
    lines: Mapping[str, str]


def printed_with(extension: Extension, use: str, folder: Path, *arguments: str, **environ: str) -> list[str]:
    """Copy the package below ``folder``, extend the copy, and run ``use`` over it; returns the lines that it prints."""
    copy = folder / "code/metastore"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    (copy / extension.module).write_text(extension.text)
    table = copy / extension.table
    for mark, line in extension.lines.items():
        before = table.read_text()
        assert before.count(mark) == 1, mark
        table.write_text(before.replace(mark, f"{line}\n{mark}"))
    command = [sys.executable, "-c", use, *arguments]
    environment = {**os.environ, "PYTHONPATH": str(folder / "code"), **environ}
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
