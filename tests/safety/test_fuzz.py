"""Hostile and damaged input: an answer or an error of the package, within bounds of memory, and nothing else touched.

Each target runs in a process of its own (``safety.fuzzing``), with its memory limited, in a folder beside others; what
lies around it is looked at before and after, by content and time.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from safety.fuzzing import TARGETS
from safety.sizes import SEED, SIZE

pytestmark = [pytest.mark.integration, pytest.mark.slow, pytest.mark.timeout(3600)]

REPOSITORY = Path(__file__).parents[2]
INPUTS_OF_WORLDS = 4
"""One damaged table costs as much as so many texts: it is made, and used by several sessions."""

Tree = dict[str, tuple[int, int, bytes]]


def around(folder: Path, inside: Path) -> Tree:
    """All that is below ``folder`` but not below ``inside``."""
    found: Tree = {}
    for path in folder.rglob("*"):
        if inside not in (path, *path.parents):
            status = path.lstat()
            found[str(path)] = (
                status.st_mode,
                status.st_mtime_ns,
                path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
            )
    return found


def files_in(tree: Tree) -> Tree:
    """What is no folder."""
    return {path: state for path, state in tree.items() if not stat.S_ISDIR(state[0])}


@pytest.mark.parametrize("target", TARGETS)
def test_whatever_comes(tmp_path: Path, target: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The process lives, says what is wrong in words of ours, and leaves alone what is not its own."""
    base = tmp_path / "a/base"
    for folder in (base, tmp_path / "a/next", tmp_path / "home", tmp_path / "temporary"):
        folder.mkdir(parents=True)
        if folder != base:
            (folder / "precious").write_text("precious")
    (tmp_path / "precious").write_text("precious")
    before = around(tmp_path, base)
    rounds = max(1, SIZE.inputs // (INPUTS_OF_WORLDS if target in ("component", "lake") else 1))
    environment = {
        **{name: value for name, value in os.environ.items() if name in ("PATH", "JAVA_HOME")},
        "PYTHONPATH": os.pathsep.join((str(REPOSITORY), str(REPOSITORY / "tests"))),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": str(tmp_path / "home"),
        "TMPDIR": str(tmp_path / "temporary"),
    }
    ran = subprocess.run(
        [sys.executable, "-m", "safety.fuzzing", str(base), target, str(SEED), str(rounds)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path / "home",
        env=environment,
    )
    assert ran.returncode == 0, (ran.returncode, ran.stderr[-3000:])
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["bad"] == []
    after = around(tmp_path, base)
    for tree in (before, after):  # a query with limited memory has a folder in it while it runs
        del tree[str(tmp_path / "temporary")]
    if target == "lake":
        # Where a table of others lies is for its metadata to say, damaged or not, so files may come to lie elsewhere.
        assert files_in(before).items() <= files_in(after).items()
    else:
        assert after == before
    outcomes = told["outcomes"]
    # Damage that nobody noticed, or that nobody got through, would try nothing.
    assert outcomes["answered"] > 0
    assert len(outcomes) > 1
    with capsys.disabled():
        counts = ", ".join(f"{number} {outcome}" for outcome, number in sorted(outcomes.items()))
        sys.stdout.write(f"\nfuzz, {target}: {sum(outcomes.values())} inputs: {counts}\n")
