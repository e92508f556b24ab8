"""Programs of others that a package registry brings: installed once per user, and kept as Maven keeps its own."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path


def installed(name: str, command: Sequence[str], *, hint: str, **environment: str) -> Path:
    """The folder ``name`` of the user's cache, in which ``command`` has installed something.

    It ran once, however many processes ask. Each ``{}`` in it and in the values of ``environment`` is the folder.
    ``hint`` says what brings the command's program, if it is missing. Raises RuntimeError with what was said.
    """
    program = shutil.which(command[0])
    if program is None:
        raise RuntimeError(f"no {command[0]} on this machine, which brings this service: {hint}")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "metastore-tests"
    cache.mkdir(parents=True, exist_ok=True)
    folder, complete = cache / name, cache / f"{name}.complete"
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            filled = [program, *(part.replace("{}", str(folder)) for part in command[1:])]
            extra = {key: value.replace("{}", str(folder)) for key, value in environment.items()}
            ran = subprocess.run(filled, capture_output=True, text=True, check=False, env={**os.environ, **extra})
            if ran.returncode:
                raise RuntimeError(f"{name} could not be installed: {ran.stderr[-2000:]}")
            complete.touch()
    return folder
