"""What the guide to security promises: no stored bytes become code, and every test that it names is there."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
GUIDE = (ROOT / "docs" / "guide" / "security.md").read_text(encoding="utf-8")

BECOME_CODE = {"pickle", "cloudpickle", "marshal", "shelve", "dill", "yaml", "jsonpickle"}
PICKLES = {
    "engines/engine.py": "helper processes that it started",
    "spark/engine.py": "tasks that it sends",
    "spark/jobs.py": "chunks of jobs, and their numbers in answers",
    "spark/worker.py": "tasks that the driver sent",
    "procedures/deletes/conversion.py": "what its own tasks return through the engine",
    "lake/writes/delete_writing.py": "what its own tasks return through the engine",
    "procedures/rewrite/task.py": "what its own tasks return through the engine",
    "sql/tasks/statement_tasks.py": "what its own tasks return through the engine",
}
"""Modules that speak in pickles, and with whom; none reads any from a file."""


def dangers(source: str) -> set[str]:
    """What a module imports or calls by which bytes could become code."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found |= {alias.name.split(".")[0] for alias in names} & BECOME_CODE
                if isinstance(node, ast.ImportFrom):
                    found |= {(node.module or "").split(".")[0]} & BECOME_CODE
            case ast.Call(func=ast.Name(id="eval" | "exec" | "compile" as name)):
                found.add(name)
            case ast.keyword(arg="shell", value=ast.Constant(value=True)):
                found.add("shell")
    return found


def test_no_stored_bytes_become_code() -> None:
    """Few modules pickle, none of them to files, and nobody evaluates text or hands any to a shell."""
    package = ROOT / "metastore"
    found = {str(path.relative_to(package)): dangers(path.read_text()) for path in package.rglob("*.py")}
    assert {name for name, what in found.items() if what} == set(PICKLES)
    assert {what for name in PICKLES for what in found[name]} == {"pickle", "cloudpickle"}


def test_the_look_finds_what_it_is_for() -> None:
    """Each of these would be seen."""
    for source in ("import pickle", "from yaml import load", "eval(x)", "run(x, shell=True)", "import marshal as m"):
        assert dangers(source), source


def test_every_test_that_the_guide_names_is_there() -> None:
    """File and function; a threat without a test would be a promise only."""
    named = re.findall(r"`([\w/]+\.py)::(test_\w+)`", GUIDE)
    assert len(named) >= 15
    for file, function in named:
        assert re.search(rf"def {function}\(", (ROOT / "tests" / file).read_text()), f"{file}::{function}"
    rows = [line for line in GUIDE.splitlines() if line.startswith("| ") and "threat" not in line]
    assert all("::test_" in row for row in rows)
