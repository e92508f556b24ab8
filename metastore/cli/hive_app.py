"""The commands of ``metastore hive``. Importing this module adds them."""
# ruff: noqa: PLC0415 - as in metastore.cli.app

from __future__ import annotations

from functools import partial
from typing import Annotated, Final

import typer

from metastore.cli.app import app, command
from metastore.cli.invocation import Invocation

group: Final = typer.Typer(
    help="Show tables of Hive Metastores.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(group, name="hive")

__all__ = ["app"]


@partial(command, group=group)
def tables(
    invocation: Invocation,
    database: Annotated[str | None, typer.Argument(help="Show tables of this database only.")] = None,
    plugin: Annotated[str | None, typer.Option(help="The Hive storage plugin, if there are several.")] = None,
) -> object:
    """List the tables of a Hive Metastore, and why some cannot be read from their files."""
    from metastore.cli.commands import hive

    return hive.tables(invocation.settings, plugin, database)
