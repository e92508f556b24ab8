"""The process edge of the command line: ``metastore`` and ``python -m metastore``.

Every run ends in an exit code. A failure prints one ``error:`` line, and a traceback only on request.
"""

from __future__ import annotations

import gc
import io
import json
import os
import sys
from collections.abc import Callable
from typing import Any, Final, NoReturn

from metastore.ground.distribution import conflict

_USAGE: Final = 2
_OBJECTS_PER_COLLECTION: Final = 10_000
"""Threshold of the garbage collector while a command loads. Loading creates some 100,000 objects that stay alive; with
Python's default of 700, scanning them takes a tenth of the start."""


def _run_for_programs(app: Callable[..., Any]) -> int:
    """Run a command line with ``--json`` and return its exit code; a wrong one is a document too."""
    try:
        return app(standalone_mode=False) or 0
    except Exception as error:
        if not hasattr(error, "format_message"):  # typer's error of usage, whose class has another home by release
            raise
        message = error.format_message()
        sys.stdout.write(json.dumps({"error": {"code": "usage", "message": message}}) + "\n")
        sys.stderr.write(f"error: {message}\n")
        return _USAGE


def main() -> NoReturn:
    """Run the command line of this process and exit: 0 done, 1 refused or failed, 2 misused, 130 interrupted."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # The parent process closed it. Its number is taken again here: the next file
            # that is opened would otherwise get it, and the output of libraries with it.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - to the end of the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a character that the terminal lacks is no error
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    if not hasattr(sys.modules["metastore"], "MetastoreError") and (other := conflict()):
        sys.exit(f"error: {other}")
    try:
        from metastore.cli.hive_app import app  # noqa: PLC0415 - Ctrl-C while modules load is no traceback either

        if "--json" in sys.argv:
            sys.exit(_run_for_programs(app))
        app()
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)
