"""The typer commands of what runs until a signal ends it, and those that report the health of tables."""
# ruff: noqa: PLC0415 - commands import what does their work when they run: `--help` answers at once

from __future__ import annotations

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from metastore.cli.command import command
from metastore.cli.invocation import Invocation


class LogFormat(str, Enum):
    """Format of the log of the daemon or the server."""

    TEXT = "text"
    JSON = "json"


class PolicyQuestion(str, Enum):
    """Questions about policies."""

    EXPLAIN = "explain"


LogFormatOption = Annotated[LogFormat, typer.Option(help="Format of the log, which goes to standard error.")]
IcebergTable = Annotated[str, typer.Argument(metavar="TABLE", help="catalog.schema.table.")]
AnyIcebergTable = Annotated[str | None, typer.Argument(metavar="TABLE", help="catalog.schema.table; else all.")]


@command
def daemon(
    invocation: Invocation,
    once: Annotated[bool, typer.Option("--once", help="Do what is due now, then stop.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only show the actions that are due, and what each would do.")
    ] = False,
    healthcheck: Annotated[
        bool, typer.Option("--healthcheck", help="Ask the running daemon; exit code 1 if it should be restarted.")
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="Show what the running daemon does, and its troubles.")
    ] = False,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> object:
    """Maintain tables by the policies of the configuration, until a signal ends it."""
    from metastore.cli.commands import daemon as keeping

    if healthcheck or status:
        return keeping.ask(invocation, only_health=not status)
    return keeping.daemon(invocation, once=once, dry_run=dry_run, as_json_lines=log_format is LogFormat.JSON)


@command
def serve(
    invocation: Invocation,
    console: Annotated[bool, typer.Option("--console/--no-console", help="Also serve pages for people, at /.")] = True,
    log_format: LogFormatOption = LogFormat.TEXT,
) -> object:
    """Serve tables to other engines, as a read-only Iceberg REST catalog, and a console to browsers."""
    from metastore.cli.commands import serving

    return serving.serve(invocation, as_json_lines=log_format is LogFormat.JSON, with_console=console)


@command
def policy(
    invocation: Invocation,
    question: Annotated[PolicyQuestion, typer.Argument(metavar="explain", help="The word explain.")],  # noqa: ARG001 - there is one so far
    table: IcebergTable,
) -> object:
    """Show what the daemon does to a table, and where each value is set."""
    from metastore.cli.commands import daemon as keeping

    return keeping.explain(invocation, table)


@command
def runs(
    invocation: Invocation,
    table: AnyIcebergTable = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Show at most this many, newest first.")] = 50,
) -> object:
    """List what the daemon did, newest first."""
    from metastore.cli.commands import daemon as keeping

    return keeping.runs(invocation.session, table, limit)


@command
def health(
    invocation: Invocation,
    table: AnyIcebergTable = None,
    orphans: Annotated[
        bool, typer.Option("--orphans", help="Also list the stores, and count the files that no table references.")
    ] = False,
) -> object:
    """Score how well tables are kept: snapshots, small files, orphans, metadata."""
    from metastore.cli.commands import daemon as keeping

    with invocation.output.working("health"):
        return keeping.health(invocation.session, table, orphans=orphans)


@command
def report(
    invocation: Invocation,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What to write: a .png or .html file.")],
    table: AnyIcebergTable = None,
) -> object:
    """Draw the size and the number of files of tables over time."""
    from metastore.cli.commands import daemon as keeping

    return keeping.report(invocation.session, file, table)
