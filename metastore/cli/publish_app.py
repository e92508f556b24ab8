"""``metastore publish``, ``unpublish`` and ``publications``. Importing this module adds them."""

from __future__ import annotations

from typing import Annotated

import typer

from metastore.cli.command import TableArgument, command
from metastore.cli.invocation import Invocation

Name = Annotated[str, typer.Argument(metavar="NAME", help="catalog.schema.table, in a configured catalog.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done.")]


@command
def publish(
    invocation: Invocation,
    table: TableArgument,
    to: Name,
    format_version: Annotated[int, typer.Option(help="Iceberg's format version, 2 or 3.")] = 2,
    dry_run: DryRun = False,
    replace: Annotated[bool, typer.Option("--replace", help="Publish all files anew, whatever was published.")] = False,
    milliseconds: Annotated[
        bool, typer.Option("--milliseconds", help="Publish times in milliseconds, which Spark reads wrong.")
    ] = False,
) -> object:
    """Make or renew an Iceberg table over the files of an analyzed table, for other engines."""
    from metastore.overview.results import Rows  # noqa: PLC0415 - `--help` answers at once

    options = {"dry_run": dry_run, "replace": replace, "milliseconds": milliseconds}
    return Rows.of(invocation.session.publish(table, to, format_version=format_version, **options), readable=True)


@command
def unpublish(invocation: Invocation, name: Name, dry_run: DryRun = False) -> object:
    """Remove a published table from its catalog; every file stays."""
    from metastore.overview.results import Rows  # noqa: PLC0415 - `--help` answers at once

    return Rows.of(invocation.session.unpublish(name, dry_run=dry_run), readable=True)


@command
def publications(
    invocation: Invocation,
    catalog: Annotated[str | None, typer.Argument(help="A configured catalog; all without it.")] = None,
) -> object:
    """List the published tables: what each publishes, since when, and whether it is behind its source."""
    from metastore.overview.results import Rows  # noqa: PLC0415 - `--help` answers at once

    return Rows.of(invocation.session.call("metastore.system.publications", catalog=catalog), readable=True)
