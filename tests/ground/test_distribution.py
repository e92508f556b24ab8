"""The distribution has a name of its own; who has another one of the package's name installed is told."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import metastore
from metastore.ground.distribution import DISTRIBUTION, VERSION, conflict, install_command

PACKAGE = Path(metastore.__file__).parent
REMEDY = f"pip uninstall --yes metastore && pip install --force-reinstall --no-deps {DISTRIBUTION}"


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A folder of installed packages with this one in it."""
    (tmp_path / "metastore").mkdir()
    for path in PACKAGE.iterdir():
        (tmp_path / "metastore" / path.name).symlink_to(path)
    (tmp_path / "lake_metastore-0.1.0.dist-info").mkdir()
    return tmp_path


def python(packages: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with ``packages`` first on its path."""
    environment = {**os.environ, "PYTHONPATH": str(packages)}
    return subprocess.run(
        [sys.executable, *arguments], capture_output=True, check=False, cwd=packages, env=environment, text=True
    )


def test_the_other_distribution_beside_this_one_is_a_warning(packages: Path) -> None:
    """``import metastore`` names it and says what to run; without it nothing is said."""
    program = ("-c", "import metastore; print(metastore.__version__)")
    ran = python(packages, *program)
    assert (ran.stdout.strip(), ran.stderr) == (VERSION, "")
    (packages / "metastore-1.0.0.dev21.dist-info").mkdir()
    ran = python(packages, *program)
    assert ran.stdout.strip() == VERSION
    assert "RuntimeWarning: the distribution metastore in" in ran.stderr
    assert REMEDY in ran.stderr


def test_the_command_says_that_its_package_was_replaced(packages: Path) -> None:
    """The other distribution was installed last, so the package's ``__init__`` is its own and has no name of ours."""
    (packages / "metastore-1.0.0.dev21.dist-info").mkdir()
    (packages / "metastore/__init__.py").unlink()
    (packages / "metastore/__init__.py").write_text("__version__ = '1.0.0.dev21'\n")
    ran = python(packages, "-c", "from metastore.cli.main import main; main()", "tables")
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: the distribution metastore in")
    assert REMEDY in ran.stderr


def test_a_folder_that_cannot_be_listed_is_no_conflict(tmp_path: Path) -> None:
    """A package that is run from an archive."""
    assert conflict(str(tmp_path / "package.zip")) is None


def test_every_hint_installs_this_distribution() -> None:
    """No message, guide or script tells anybody to install the other project."""
    assert install_command("sql") == "pip install 'lake-metastore[sql]'"
    root = PACKAGE.parent
    paths = [*PACKAGE.rglob("*.py"), *root.glob("*.md"), *root.glob("docs/**/*.md"), root / "Makefile"]
    wrong = [
        (path.name, found)
        for path in paths
        for found in re.findall(r"(?<![\w-])metastore\[[a-z,]+\]|install '?metastore\b", path.read_text("utf-8"))
    ]
    assert wrong == []
    assert len(paths) > 400
