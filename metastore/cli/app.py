"""The commands and their options, as typer sees them; each calls the plain function that does the work.

A command's function takes the invocation and its own arguments, and returns the result. :func:`command` adds the
global options to it, so that they may stand before and after the command's name, shows the result, and turns errors
into exit codes.
"""
# ruff: noqa: PLC0415 - commands import what does their work when they run: `--help` answers at once

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from functools import wraps
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer

from metastore.cli.invocation import GlobalOptions, Invocation
from metastore.cli.output import Output
from metastore.errors import MetastoreError

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
"""Exit codes: done; refused or failed; the command line is wrong (typer's own); Ctrl-C."""

app = typer.Typer(
    name="metastore",
    help="Analyze tables once, then skip the files that a query cannot need: Apache Drill's Iceberg metastore.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class EngineChoice(str, Enum):
    """Who reads the footers."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


class Level(str, Enum):
    """How deep the metadata goes; a level includes those before it."""

    TABLE = "table"
    SEGMENT = "segment"
    PARTITION = "partition"
    FILE = "file"
    ROW_GROUP = "row_group"


_GLOBAL = "Global options"
Conf = Annotated[
    Path | None,
    typer.Option(
        help="Configuration: a folder or a file; else $METASTORE_CONF_DIR, else conf/.", rich_help_panel=_GLOBAL
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.", rich_help_panel=_GLOBAL)]
Verbose = Annotated[
    int,
    typer.Option(
        "--verbose",
        "-v",
        count=True,
        show_default=False,
        help="Log more, and show where an error arose.",
        rich_help_panel=_GLOBAL,
    ),
]
EngineOption = Annotated[
    EngineChoice | None,
    typer.Option("--engine", help="Who does long work; else the configuration says.", rich_help_panel=_GLOBAL),
]
TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="plugin.workspace.table, or a path.")]
At = Annotated[
    str | None, typer.Option("--at", metavar="VERSION", help="As of a version, or a time such as 2026-11-20T18:00Z.")
]

Command = TypeVar("Command", bound=Callable[..., object])


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"metastore {version_of('metastore')}")
        raise typer.Exit


@app.callback()
def _before_the_command(
    ctx: typer.Context,
    conf: Conf = None,
    as_json: Json = False,
    verbose: Verbose = 0,
    engine: EngineOption = None,
    version: Annotated[  # noqa: ARG001 - its callback does it all
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    ctx.obj = GlobalOptions(conf, as_json, verbose, engine.value if engine else None)


def command(function: Command) -> Command:
    """Register ``function`` under its name, with the global options beside its own parameters."""

    @wraps(function)
    def run(
        ctx: typer.Context, conf: Conf, as_json: Json, verbose: Verbose, engine: EngineOption, **arguments: Any
    ) -> None:
        before: GlobalOptions = ctx.obj
        options = before.then(GlobalOptions(conf, as_json, verbose, engine.value if engine else None))
        code = _carry_out(function, options, arguments)
        if code:
            raise typer.Exit(code)

    own = inspect.signature(function, eval_str=True).parameters.values()
    added = inspect.signature(_before_the_command, eval_str=True).parameters.values()
    parameters = [*list(own)[1:], *(each for each in added if each.name != "version")]
    keywords = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    run.__signature__ = inspect.Signature(keywords)  # type: ignore[attr-defined] # what typer reads options from
    run.__annotations__ = {each.name: each.annotation for each in keywords}
    app.command(name=function.__name__.replace("_", "-"))(run)
    return function


def _carry_out(function: Callable[..., object], options: GlobalOptions, arguments: dict[str, Any]) -> int:
    output = Output(as_json=options.json, verbose=options.verbose)
    try:
        with Invocation(options, output) as invocation:
            output.result(function(invocation, **arguments))
    except MetastoreError as error:
        output.failure(error, error.code, str(error))
        return FAILED
    except KeyboardInterrupt:
        output.note("interrupted; whatever was not committed has changed nothing")
        return INTERRUPTED
    return OK


@command
def init(invocation: Invocation) -> object:
    """Create the metastore, or bring an old one up to date."""
    from metastore.cli.commands import setup

    return setup.init(invocation.session)


@command
def register(
    invocation: Invocation,
    source: Annotated[
        Path | None,
        typer.Option("--from", metavar="CONF", help="Configuration of where the tables are; else the file system."),
    ] = None,
) -> object:
    """Bring an existing metastore into the configured catalog."""
    from metastore.cli.commands import setup

    return setup.register(invocation.session, source)


@command
def config(invocation: Invocation) -> object:
    """Show every setting in effect, and the file it was set in."""
    from metastore.cli.commands import setup

    return setup.config(invocation.settings)


@command
def analyze(
    invocation: Invocation,
    table: TableArgument,
    columns: Annotated[
        str | None, typer.Option(help="Statistics for these columns only: a,b.c; an empty text for none.")
    ] = None,
    level: Annotated[Level, typer.Option(help="How deep the metadata goes.")] = Level.ROW_GROUP,
) -> object:
    """Bring the metadata of a table up to date with its files."""
    session = invocation.session
    chosen = None if columns is None else [each.strip() for each in columns.split(",") if each.strip()]
    with invocation.output.progress(f"analyze {table}", "footers") as on_progress:
        return session.analyze(table, columns=chosen, level=level.value.upper(), on_progress=on_progress)


@command
def tables(
    invocation: Invocation,
    pattern: Annotated[str | None, typer.Argument(help="Only names that match, such as 'dfs.tmp.*'.")] = None,
    at: At = None,
) -> object:
    """List the tables that were analyzed."""
    from metastore.cli.commands import explore

    return explore.tables(invocation.session, pattern, at)


@command
def describe(invocation: Invocation, table: TableArgument, at: At = None) -> object:
    """Show a table's columns with their types and statistics."""
    from metastore.cli.commands import explore

    return explore.describe(invocation.session, table, at)


@command
def segments(invocation: Invocation, table: TableArgument, at: At = None) -> object:
    """List the directories of a table."""
    from metastore.cli.commands import explore

    return explore.segments(invocation.session, table, at)


@command
def files(
    invocation: Invocation,
    table: TableArgument,
    segment: Annotated[str | None, typer.Argument(help="Only the files of this segment.")] = None,
    at: At = None,
) -> object:
    """List the files of a table, or of one of its segments."""
    from metastore.cli.commands import explore

    return explore.files(invocation.session, table, segment, at)


@command
def prune(
    invocation: Invocation,
    table: TableArgument,
    where: Annotated[str, typer.Argument(help='A condition in SQL, such as "month = 6 and dep_delay > 600".')],
    files: Annotated[bool, typer.Option("--files", help="Also list each file to read.")] = False,
    listing: Annotated[
        bool, typer.Option("--list/--no-list", help="Look which files exist now, or trust the metadata.")
    ] = True,
    time_zone: Annotated[
        str | None, typer.Option(metavar="ZONE", help="Zone of timestamps that name none, such as Europe/Berlin.")
    ] = None,
) -> object:
    """Tell which files and row groups a query must read, and why not the others."""
    from metastore.cli.commands import pruning

    return pruning.prune(invocation.session, table, where, list_files=listing, time_zone=time_zone, with_files=files)


@command
def history(
    invocation: Invocation,
    limit: Annotated[int | None, typer.Option(min=1, help="The newest ones only.")] = None,
) -> object:
    """List the versions of the metastore that are kept."""
    from metastore.cli.commands import versions

    return versions.history(invocation.session, limit)


@command
def drop_metadata(
    invocation: Invocation,
    table: TableArgument,
    if_exists: Annotated[bool, typer.Option("--if-exists", help="Not knowing the table is no error.")] = False,
) -> object:
    """Forget a table. Its data is not touched."""
    from metastore.cli.commands import versions

    return versions.drop_metadata(invocation.session, table, if_exists=if_exists)


@command
def purge(
    invocation: Invocation,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> object:
    """Forget all tables. Their data is not touched."""
    from metastore.cli.commands import versions

    session = invocation.session
    if not yes:
        invocation.output.confirm("Forget the metadata of all tables?", "give --yes")
    return versions.purge(session)


@command
def expire(
    invocation: Invocation,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would go.")] = False,
) -> object:
    """Delete outdated versions, and the files that only they need."""
    from metastore.cli.commands import versions

    session = invocation.session
    with invocation.output.working("expire"):
        return versions.expire(session, dry_run=dry_run)
