"""The commands of ``metastore doctor``. Importing this module adds them."""
# ruff: noqa: PLC0415 - as in metastore.cli.app

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from metastore.cli.command import command
from metastore.cli.hive_app import app
from metastore.cli.invocation import Invocation

group: Final = typer.Typer(
    help="Check that every engine reads files alike.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(group, name="doctor")

__all__ = ["app"]


@partial(command, group=group)
def files(
    invocation: Invocation,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder whose data files are read, at any depth.")],
    *,
    spark: Annotated[
        bool, typer.Option("--spark", help="Also read the files with Spark: about one second per file.")
    ] = False,
) -> object:
    """Analyze each file of a folder by itself, read it through every door, and compare. Changes nothing."""
    from metastore.cli.commands import doctor

    with invocation.output.progress(f"doctor {folder}", "files") as on_progress:
        return doctor.files(folder, on_progress, spark=spark)
