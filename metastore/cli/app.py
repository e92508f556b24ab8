"""The typer commands and their options. Each calls the plain function that does the work.

The commands of the daemon are in :mod:`metastore.cli.daemon_app`.
"""
# ruff: noqa: PLC0415 - commands import what does their work when they run: `--help` answers at once

from __future__ import annotations

import sys
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

import metastore.cli.init_app  # imported first, so that `init` comes first in the help
from metastore.cli.command import TableArgument
from metastore.cli.command import app as app
from metastore.cli.command import command as command
from metastore.cli.invocation import Invocation
from metastore.errors import InvalidRequestError


class Level(str, Enum):
    """How deep the metadata goes; a level includes those before it."""

    TABLE = "table"
    SEGMENT = "segment"
    PARTITION = "partition"
    FILE = "file"
    ROW_GROUP = "row_group"


At = Annotated[
    str | None, typer.Option("--at", metavar="VERSION", help="As of a version, or a time such as 2026-11-20T18:00Z.")
]


@command
def register(
    invocation: Invocation,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="CONF",
            help="Configuration that names where the tables are now; by default the file system.",
        ),
    ] = None,
) -> object:
    """Bring an existing metastore into the configured catalog."""
    from metastore.cli.commands import setup

    return setup.register(invocation.session, source)


@command
def config(invocation: Invocation) -> object:
    """Show every setting and the file that sets it."""
    from metastore.cli.commands import setup

    invocation.lists_warnings = True
    return setup.config(invocation.settings)


@command
def analyze(  # noqa: PLR0913, PLR0917 - one for each option of the command
    invocation: Invocation,
    table: Annotated[
        str | None,
        typer.Argument(
            metavar="TABLE",
            help="plugin.workspace.table, a path, or several tables: 'dfs.shop.*', dfs.shop for all of it.",
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="All tables that were analyzed, and new ones in your workspaces.")
    ] = False,
    columns: Annotated[
        str | None, typer.Option(help="Statistics for these columns only: a,b.c; an empty text for none.")
    ] = None,
    level: Annotated[Level, typer.Option(help="How deep the metadata goes.")] = Level.ROW_GROUP,
    statistics: Annotated[
        str | None,
        typer.Option(help="Also distinct values, widths and histograms of these columns: a,b.c; '*' for all."),
    ] = None,
    sample: Annotated[
        float | None,
        typer.Option(metavar="PERCENT", help="Estimate these statistics from this percentage of the rows."),
    ] = None,
    format_: Annotated[
        str | None,
        typer.Option("--format", help="Format of the files, if their suffixes do not show it: csv, json, orc …"),
    ] = None,
    schema: Annotated[
        str | None, typer.Option(help="The table's columns, if the files do not record them: 'a INT, b VARCHAR'.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="How delimited text is written: delimiter=';', header=false …")
    ] = None,
    bounds: Annotated[
        str | None, typer.Option(help="Where bounds come from: auto, footers or data; or a,b: these columns' data.")
    ] = None,
    case_sensitive: Annotated[
        bool | None,
        typer.Option(
            "--case-sensitive/--no-case-sensitive",
            help="Whether names that differ in case alone are different columns; by default as configured.",
        ),
    ] = None,
    partition: Annotated[
        list[str] | None,
        typer.Option(help="Only this partition: day=2026-11-24, 'day=2026-11-*', year=2026/month=11; repeatable."),
    ] = None,
    since: Annotated[
        str | None, typer.Option(help="Only partitions with at least these values: day=2026-11-20.")
    ] = None,
    paths: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Only the files that FILE names, without a listing: paths, events of S3 or GCS as JSON, S3 Inventory.",
        ),
    ] = None,
) -> object:
    """Bring the metadata of a table, or of many, up to date with its files."""
    from metastore.cli.commands import many, named_parts
    from metastore.cli.commands import statistics as options

    invocation.make_place_if_needed()
    asked = options.request(
        columns, level.value, statistics, sample, format_, schema, option or (), case_sensitive, bounds
    )
    parts = named_parts.arguments(partition or (), since, paths)
    if parts and (table is None or every or many.is_several(invocation.session, table)):
        raise InvalidRequestError(
            "--partition, --since and --paths are for one table: plugin.workspace.table or a path"
        )
    if (table is None) is every and (every or many.is_several(invocation.session, table or "")):
        with invocation.output.progress("analyze tables", "tables") as on_progress:
            return many.analyze(invocation.session, None if every else table, asked, on_progress)
    if table is None or every:
        raise InvalidRequestError("name a table: plugin.workspace.table, a path, a pattern, or --all alone")
    with invocation.output.progress(f"analyze {table}", "files") as on_progress:
        return invocation.session.analyze(table, asked, **parts, on_progress=on_progress)


@command
def tables(
    invocation: Invocation,
    pattern: Annotated[str | None, typer.Argument(help="Only names that match, such as 'dfs.tmp.*'.")] = None,
    at: At = None,
) -> object:
    """List the tables that were analyzed."""
    from metastore.overview import tables as explore

    return explore.tables(invocation.session, pattern, at)


@command
def describe(invocation: Invocation, table: TableArgument, at: At = None) -> object:
    """Show a table's columns with their types and statistics."""
    from metastore.overview import tables as explore

    return explore.describe(invocation.session, table, at)


@command
def segments(invocation: Invocation, table: TableArgument, at: At = None) -> object:
    """List the directories of a table."""
    from metastore.overview import tables as explore

    return explore.segments(invocation.session, table, at)


@command
def files(
    invocation: Invocation,
    table: TableArgument,
    segment: Annotated[str | None, typer.Argument(help="Only the files of this segment.")] = None,
    at: At = None,
) -> object:
    """List the files of a table, or of one of its segments."""
    from metastore.overview import tables as explore

    return explore.files(invocation.session, table, segment, at)


@command
def prune(
    invocation: Invocation,
    table: TableArgument,
    where: Annotated[str, typer.Argument(help='A condition in SQL, such as "month = 6 and dep_delay > 600".')],
    files: Annotated[bool, typer.Option("--files", help="Also list each file to read.")] = False,
    listing: Annotated[
        bool, typer.Option("--list/--no-list", help="Compare with the files that exist now, or trust the metadata.")
    ] = True,
    time_zone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Zone of timestamps that name none, such as Europe/Berlin.")
    ] = None,
    spark_quotes: Annotated[
        bool, typer.Option("--spark-quotes", help="Double quotes enclose texts, even a column's name.")
    ] = False,
) -> object:
    """Show which files and row groups a query reads, and why the rest are skipped."""
    from metastore.overview import pruning

    invocation.make_place_if_needed()
    return pruning.prune(
        invocation.session,
        table,
        where,
        list_files=listing,
        time_zone=time_zone,
        with_files=files,
        spark_quotes=spark_quotes,
    )


@command
def history(
    invocation: Invocation,
    limit: Annotated[int | None, typer.Option(min=1, help="Show at most this many, newest first.")] = None,
) -> object:
    """List the versions of the metastore that are kept."""
    from metastore.cli.commands import versions

    return versions.history(invocation.session, limit)


@command
def sql(
    invocation: Invocation,
    statement: Annotated[
        str | None,
        typer.Argument(metavar="STATEMENT", help="One or several, ended by semicolons; - reads standard input."),
    ] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Run the statements of this file.")] = None,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print rows as CSV.")] = False,
) -> object:
    """Run SQL statements and print their rows; without a statement, open a prompt."""
    from metastore.cli.commands import scripts

    invocation.make_place_if_needed()
    if statement is None and file is None and sys.stdin.isatty():
        from metastore.cli.commands import prompt

        return prompt.run(invocation.session, invocation.output, as_csv=as_csv)
    text = scripts.text_of(statement, file, sys.stdin)
    with invocation.output.progress("sql") as on_progress:
        return scripts.run(invocation.session, text, as_csv=as_csv, on_progress=on_progress)


@command
def call(
    invocation: Invocation,
    statement: Annotated[str, typer.Argument(metavar="CALL", help="CALL catalog.system.name(argument => value, …).")],
) -> object:
    """Call a procedure on a table of any configured catalog."""
    from metastore.cli.commands import statements

    with invocation.output.progress("call", "work items") as on_progress:
        return statements.call(invocation.session, statement, on_progress)


@command
def procedures(
    invocation: Invocation,
    catalog: Annotated[str | None, typer.Argument(help="Show procedures of this catalog only.")] = None,
) -> object:
    """List the procedures that can be called."""
    from metastore.cli.commands import statements

    return statements.procedures(invocation.session, catalog)


@command
def inspect(
    invocation: Invocation,
    table: Annotated[
        str,
        typer.Argument(
            metavar="TABLE", help="A metadata table, such as catalog.schema.table$files; without $, list their names."
        ),
    ],
    at: Annotated[
        str | None, typer.Option("--at", help="As of a snapshot's id, a branch or tag, or a time with its zone.")
    ] = None,
) -> object:
    """Show the metadata of an Iceberg table: snapshots, files, partitions, refs, properties."""
    from metastore.cli.commands import inspecting

    return inspecting.inspect(invocation.session, table, at)


@command
def drop_metadata(
    invocation: Invocation,
    table: TableArgument,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Succeed even if the table has no metadata.")] = False,
) -> object:
    """Remove a table from the metastore. Its data is not touched."""
    from metastore.cli.commands import versions

    return versions.drop_metadata(invocation.session, table, if_exists=if_exists)


@command
def purge(
    invocation: Invocation,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> object:
    """Remove all tables from the metastore. Their data is not touched."""
    from metastore.cli.commands import versions

    session = invocation.session
    if not yes:
        invocation.output.confirm("Forget the metadata of all tables?", "give --yes")
    return versions.purge(session)


@command
def expire(
    invocation: Invocation,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be deleted.")] = False,
    older_than: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Such as '2 days'; else as configured, or 5 days.")
    ] = None,
) -> object:
    """Delete old versions of the metastore, and the files that only they need."""
    from metastore.cli.commands import versions

    session = invocation.session
    with invocation.output.working("expire"):
        return versions.expire(session, dry_run=dry_run, older_than=older_than)


@command
def deletions(
    invocation: Invocation,
    keep: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH|TABLE", help="Take back these entries: the files stay; repeatable."),
    ] = None,
    release: Annotated[
        list[str] | None,
        typer.Option(metavar="PATH|TABLE", help="Put entries that were taken back on the list anew; repeatable."),
    ] = None,
    table: Annotated[str | None, typer.Option(help="Only entries of this table: catalog.schema.table.")] = None,
    delete_due: Annotated[
        bool, typer.Option("--delete-due", help="Delete files that are due, also those of dropped tables.")
    ] = False,
) -> object:
    """List files that wait for their deletion; keep them or delete them."""
    from metastore.cli.commands import put_off

    session = invocation.session
    if delete_due:
        with invocation.output.working("delete"):
            return put_off.delete_due(session)
    return put_off.deletions(session, keep or (), release or (), table)


@command
def check(
    invocation: Invocation,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="Time limit for a catalog to answer; 10 by default.")
    ] = None,
) -> object:
    """Check the configuration, and that no file of the metastore is missing or damaged. Changes nothing."""
    from metastore.cli.commands import integrity

    invocation.lists_warnings = True
    session = invocation.session
    with invocation.output.working("check"):
        return integrity.check(session, timeout)


@command
def repair(
    invocation: Invocation,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> object:
    """Return to the newest version whose files are all there. Deletes nothing."""
    from metastore.cli.commands import integrity

    session = invocation.session
    if not (dry_run or yes):
        invocation.output.confirm("Go back to the newest intact versions? Stop all writers first.", "give --yes")
    with invocation.output.working("repair"):
        return integrity.repair(session, dry_run=dry_run)


# Imported last, so that these commands come last in the help.
import metastore.cli.daemon_app  # noqa: E402
import metastore.cli.publish_app  # noqa: E402, F401
