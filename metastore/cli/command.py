"""Makes a command of a function: adds the global options, shows the result, and turns errors into exit codes.

The function takes the invocation and its own arguments, and returns the result.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from enum import Enum
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import typer
from typer.core import TyperGroup

from metastore.cli.incomplete import Incomplete
from metastore.cli.invocation import GlobalOptions, Invocation
from metastore.cli.output import Output
from metastore.errors import ConfigError, InvalidRequestError, MetastoreError

OK: Final = 0
FAILED: Final = 1
USAGE: Final = 2
INTERRUPTED: Final = 130
"""Exit codes: success; refused or failed; wrong command line (typer's own code); Ctrl-C."""

_WORDS_OF_OTHER_TOOLS: Final = {
    "tables": "list ls",
    "describe TABLE": "columns desc info schema",
    "analyze TABLE": "add index refresh scan sync",
    "drop-metadata TABLE": "delete drop forget remove rm",
    "history": "log snapshots versions",
    "expire": "clean cleanup gc vacuum",
    "check": "doctor fsck validate verify",
    "serve": "console server ui web",
    "config": "settings",
    "health": "status",
    "sql": "shell",
    'sql "STATEMENT"': "alter create explain insert merge query select show update with",
    'sql "CALL system.rewrite_data_files(…)"': "compact optimize",
    "--help": "help",
    "--version": "version",
}
INSTEAD: Final = {word: here for here, words in _WORDS_OF_OTHER_TOOLS.items() for word in words.split()}
"""The arguments that do here what other tools call by a word."""


class _Commands(TyperGroup):
    """The commands; a word of another tool is an error that names the command."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Returns the command that ``args`` begin with; raises typer's error of usage for an unknown one."""
        instead = INSTEAD.get(args[0].lower())
        if instead and not ctx.resilient_parsing:
            ctx.fail(f"No such command {args[0]!r}. Run: metastore {instead}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    name="metastore",
    cls=_Commands,
    help="Analyze tables once, then skip the files that a query cannot need: Apache Drill's Iceberg metastore.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class EngineChoice(str, Enum):
    """The engine that reads the footers."""

    AUTO = "auto"
    LOCAL = "local"
    SPARK = "spark"


_GLOBAL = "Global options"
Conf = Annotated[
    Path | None,
    typer.Option(
        help="Configuration: a folder or a file; else $METASTORE_CONF_DIR, else conf/.",
        rich_help_panel=_GLOBAL,
        is_eager=True,  # `--version` shows the files of `--config`, in any order of options
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.", rich_help_panel=_GLOBAL, is_eager=True)]
Wide = Annotated[
    bool, typer.Option("--wide", help="Fold nothing, however narrow the terminal is.", rich_help_panel=_GLOBAL)
]
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
    typer.Option("--engine", help="Engine for long work; by default as configured.", rich_help_panel=_GLOBAL),
]
TableArgument = Annotated[str, typer.Argument(metavar="TABLE", help="plugin.workspace.table, or a path.")]
Command = TypeVar("Command", bound=Callable[..., object])


def _print_version(ctx: typer.Context, asked: bool) -> None:
    if asked:
        from metastore.cli.commands.about import about, text  # noqa: PLC0415 - `--help` answers at once

        found = about(ctx.params["conf"])
        typer.echo(json.dumps(found) if ctx.params["as_json"] else text(found))
        raise typer.Exit


@app.callback()
def _before_the_command(
    ctx: typer.Context,
    conf: Conf = None,
    as_json: Json = False,
    wide: Wide = False,
    verbose: Verbose = 0,
    engine: EngineOption = None,
    version: Annotated[  # noqa: ARG001 - its callback does it all
        bool,
        typer.Option("--version", callback=_print_version, help="Print versions, and the configuration's files."),
    ] = False,
) -> None:
    ctx.obj = GlobalOptions(conf, as_json, wide, verbose, engine.value if engine else None)


def command(function: Command, group: typer.Typer = app) -> Command:
    """Register ``function`` under its name, with the global options added to its own parameters."""

    @wraps(function)
    def run(
        ctx: typer.Context, conf: Conf, as_json: Json, wide: Wide, verbose: Verbose, engine: EngineOption, **own: Any
    ) -> None:
        before: GlobalOptions = ctx.obj
        options = before.then(GlobalOptions(conf, as_json, wide, verbose, engine.value if engine else None))
        code = _carry_out(function, options, own)
        if code:
            raise typer.Exit(code)

    own = signature(function, eval_str=True).parameters.values()
    added = signature(_before_the_command, eval_str=True).parameters.values()
    parameters = [*list(own)[1:], *(each for each in added if each.name != "version")]
    keywords = [each.replace(kind=Parameter.KEYWORD_ONLY) for each in parameters]
    run.__signature__ = Signature(keywords)  # type: ignore[attr-defined] # what typer reads options from
    run.__annotations__ = {each.name: each.annotation for each in keywords}
    group.command(name=function.__name__.replace("_", "-"))(run)
    return function


def _require_place() -> None:
    """Raise an error if the working directory was removed: PyIceberg always looks for its own files there."""
    try:
        os.getcwd()
    except OSError as error:
        raise ConfigError(f"the working directory cannot be found, change to another one: {error}") from error


def _require_text(*given: object) -> None:
    """Raise an error for arguments that are not valid text."""
    for each in given:
        if isinstance(each, str | Path):
            try:
                str(each).encode()
            except UnicodeEncodeError as error:
                raise InvalidRequestError(f"the argument {os.fsencode(each)!r} is not UTF-8") from error


def _carry_out(function: Callable[..., object], options: GlobalOptions, arguments: dict[str, Any]) -> int:
    """Show what ``function`` returns, or its error; returns the exit code. Other exceptions pass unchanged."""
    output = Output(as_json=options.json, wide=options.wide, verbose=options.verbose)
    try:
        _require_place()
        _require_text(options.conf, *arguments.values())
        with Invocation(options, output, arguments.get("table") or arguments.get("statement")) as invocation:
            result = function(invocation, **arguments)
            if isinstance(result, Incomplete):
                output.result(result.result)
                output.complaint(result.why)
                return FAILED
            output.result(result)
    except MetastoreError as error:
        output.failure(error, error.code, str(error))
        return FAILED
    except KeyboardInterrupt:
        output.note("interrupted; only what was committed before has changed anything")
        return INTERRUPTED
    return OK
