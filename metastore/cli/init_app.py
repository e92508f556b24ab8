"""``metastore init``. Importing this module adds it."""
# ruff: noqa: PLC0415 - commands import what does their work when they run: `--help` answers at once

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from metastore.cli.command import command
from metastore.cli.invocation import Invocation


@command
def init(
    invocation: Invocation,
    folder: Annotated[
        Path | None,
        typer.Argument(
            metavar="FOLDER",
            help="Make .metastore here, for the tables in this folder; by default in the working directory.",
        ),
    ] = None,
) -> object:
    """Create the metastore, or bring an old one up to date."""
    from metastore.cli.commands import setup

    return setup.init(invocation.session_at(folder))
