"""One run of the command line: the options of every command, and the settings and session that follow from them.

Settings and session are opened on first use and closed when the command ends.
"""
# ruff: noqa: PLC0415 - the heavy half of the package is imported when a command needs it: `--help` answers at once

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from metastore.cli.output import Output

if TYPE_CHECKING:
    from metastore.config import Settings
    from metastore.config.settings import EngineKind
    from metastore.engines.engine import Engine
    from metastore.session import Session


@dataclass(frozen=True)
class GlobalOptions:
    """Options that are allowed before and after a command's name."""

    conf: Path | None = None
    json: bool = False
    wide: bool = False
    verbose: int = 0
    engine: EngineKind | None = None

    def then(self, later: GlobalOptions) -> GlobalOptions:
        """Merges both: the ``later`` value wins, flags are or-ed, and the numbers of ``-v`` are added."""
        return GlobalOptions(
            conf=later.conf or self.conf,
            json=later.json or self.json,
            wide=later.wide or self.wide,
            verbose=self.verbose + later.verbose,
            engine=later.engine or self.engine,
        )


class Invocation:
    """A context manager; ``output`` receives everything that people or programs read.

    A command sets ``lists_warnings`` if its result has all warnings about the configuration; others show one line.
    """

    def __init__(self, options: GlobalOptions, output: Output, subject: str | None = None) -> None:
        """``subject`` is the table or statement of the command; a place near it counts, where nothing is configured."""
        self.options = options
        self.output = output
        self._subject = subject
        self._makes_place = False
        self.lists_warnings = False
        self._opened = ExitStack()

    @cached_property
    def settings(self) -> Settings:
        """The configuration, with ``--engine`` applied. Raises ConfigError."""
        return self.load()

    def load(self) -> Settings:
        """Read the current configuration. Raises ConfigError."""
        if self._subject is None or self.options.conf is not None:
            from metastore.config import load

            settings = load(self.options.conf)
        else:
            from metastore.sources.first_use import settings_near

            settings = settings_near(self._subject, made=self.output.note if self._makes_place else None)
        if settings.warnings and not self.lists_warnings:
            self.output.warning(_in_one_line(settings.warnings))
        if self.options.engine is None:
            return settings
        return replace(settings, engine=replace(settings.engine, kind=self.options.engine))

    @cached_property
    def session(self) -> Session:
        """A session over the configured metastore that can use Spark. Raises ConfigError."""
        return self._opened.enter_context(self.open_session(self.settings))

    def open_session(self, settings: Settings) -> Session:
        """Open a session over the metastore of ``settings``; the caller closes it."""
        from metastore.opening import session_of

        return session_of(settings, self._spark_engine, self.output.note)

    def session_at(self, folder: Path | None) -> Session:
        """Open a session over the metastore in ``folder``, which becomes a place. None: as configured, or here."""
        from metastore.sources.first_use import settings_in, settings_near

        if folder is not None:
            settings = settings_in(folder, self.options.conf)
        else:
            settings = settings_near(None, self.options.conf, made=self.output.note)
        return self._opened.enter_context(self.open_session(settings))

    def make_place_if_needed(self) -> None:
        """From now on, settings that nobody configured are made beside the table of the command."""
        self._makes_place = True

    def _spark_engine(self) -> Engine:
        from metastore.spark import SparkQueryEngine

        return SparkQueryEngine(settings=self.settings.engine.spark)

    def __enter__(self) -> Invocation:
        self._opened.enter_context(self.output)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()


def _in_one_line(warnings: Sequence[str]) -> str:
    if len(warnings) == 1:
        return warnings[0]
    return f"{len(warnings)} warnings about the configuration, which `metastore config` lists; the first: {warnings[0]}"
