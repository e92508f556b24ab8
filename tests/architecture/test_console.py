"""The console costs nothing where it is not used, and is whole where it is installed."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ITS_OWN = {"jinja2", "markupsafe", "starlette", "uvicorn", "metastore.console"}
COMMANDS = [
    "metastore.cli.main, metastore.cli.app",
    "metastore.cli.commands.daemon",
    "metastore.cli.commands.serving",
    "metastore.cli.screens",
    "metastore.daemon.process",
]


@pytest.mark.parametrize("modules", COMMANDS)
def test_other_commands_load_none_of_it(modules: str) -> None:
    """Not even the daemon, before it begins to serve."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import {modules}; print(' '.join(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert set(ran.stdout.split()) & ITS_OWN == set()


def test_the_look_finds_what_it_is_for() -> None:
    """The test above can fail: the console is seen once it is imported."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); import metastore.console.pages; print(*sys.modules)"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert {"jinja2", "metastore.console"} <= set(ran.stdout.split())


def test_wheels_take_every_file_of_the_package() -> None:
    """The build leaves nothing out, so templates and files of browsers go where the modules go."""
    wheel = (ROOT / "pyproject.toml").read_text().partition("[tool.hatch.build.targets.wheel]\n")[2].partition("\n[")[0]
    assert wheel.strip() == 'packages = ["metastore", "pyspark_metastore"]'
    named = re.findall(r'"([\w_]+\.html)"', (ROOT / "metastore/console/pages.py").read_text())
    assert len(named) >= 12
    for name in {*(f"templates/{each}" for each in named), "static/console.css", "static/console.js"}:
        assert (ROOT / "metastore/console" / name).is_file()


def test_the_script_is_small() -> None:
    """Some 2 kB, since the pages work without it."""
    assert len(files("metastore.console").joinpath("static").joinpath("console.js").read_bytes()) <= 2_048
