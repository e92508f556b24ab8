"""The process edge of the command line: ``metastore`` and ``python -m metastore``.

Whatever happens ends in an exit code and, where something went wrong, one ``error:`` line: no traceback unless asked.
"""

from __future__ import annotations

import gc
import io
import os
import sys
from typing import Final, NoReturn

from metastore.distribution import conflict

_OBJECTS_PER_COLLECTION: Final = 10_000
"""While a command loads, objects are made by the hundred thousand, and stay: to look through them at Python's 700 takes
a tenth of its start."""


def main() -> NoReturn:
    """Run the command line of this process and exit: 0 done, 1 refused or failed, 2 misused, 130 interrupted."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Closed by whoever started this: nothing to read, nobody to tell. Its number is taken, or the next file
            # that is opened would get it, and what libraries print with it.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115 - to the end of the process
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal that lacks a character is no reason to fail
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    if not hasattr(sys.modules["metastore"], "MetastoreError") and (told := conflict()):
        sys.exit(f"error: {told}")
    try:
        from metastore.cli.doctor_app import app  # noqa: PLC0415 - Ctrl-C while modules load is no traceback either

        app()
    except KeyboardInterrupt:
        sys.exit(130)
    sys.exit(0)
