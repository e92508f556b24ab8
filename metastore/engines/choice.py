"""The engines of a session: one place that says which engine runs which work.

Work on files (ANALYZE, procedures) runs on Spark by the number of files. A statement that reads tables runs on Spark by
the bytes of the files that it reads, because starting tasks takes longer than a small statement.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal

from metastore.config import EngineSettings
from metastore.config.engine import QueryDialect
from metastore.engines.engine import Engine, LocalEngine
from metastore.errors import EngineError, InvalidRequestError

EngineFactory = Callable[[], Engine]
EngineName = Literal["local", "spark"]


class SessionEngines:
    """Chooses engines, and creates each on first use.

    ``given`` runs all work, and its owner closes it. Otherwise ``settings`` choose between the local engine and the one
    that ``spark`` returns. ``log`` gets each choice.
    """

    def __init__(
        self, settings: EngineSettings, engine: Engine | None, spark: EngineFactory | None, log: logging.Logger
    ) -> None:
        self._settings = settings
        self._given = engine
        self._spark = spark
        self._log = log
        self._engines: dict[str, Engine] = {}

    def for_files(self, files: int) -> Engine:
        """Returns the engine for work on this number of files.

        Raises EngineError if the settings require Spark, and the session has none.
        """
        if self._given is not None:
            return self._given
        settings = self._settings
        if settings.kind != "auto":
            self._log.info("engine %s, as configured", settings.kind)
            return self._engine(settings.kind)
        if self._spark is None:
            return self._engine("local")
        chosen: EngineName = "spark" if files >= settings.spark_threshold_files else "local"
        self._log.info(
            "engine %s: %d files, and Spark is for %d or more", chosen, files, settings.spark_threshold_files
        )
        return self._engine(chosen)

    def for_statement(self, files: int, size: int) -> Engine:
        """Returns the engine for a statement that reads ``files`` of ``size`` bytes in all.

        Without Spark in the session, this is the local engine, whatever the settings require.
        """
        if self._given is not None:
            return self._given
        settings = self._settings
        is_large = size >= settings.spark_threshold_size or files >= settings.spark_threshold_files
        return self._engine("spark" if is_large and self._spark is not None and settings.kind != "local" else "local")

    @property
    def for_databases(self) -> Engine | None:
        """The engine that may read databases; None if there is none."""
        return self._given or (self._engine("spark") if self._spark is not None else None)

    def for_query(self, dialect: QueryDialect) -> Engine | None:
        """Returns the engine whose SQL is ``dialect``; None for DuckDB's. Raises EngineError without Spark."""
        if dialect == "duckdb":
            return None
        if dialect != "spark":
            raise InvalidRequestError(f"engine is duckdb or spark, for the query of a statement; it is {dialect!r}")
        engine = self.for_databases
        if engine is None or not engine.capabilities.runs_queries:
            raise EngineError(
                "the query is for Spark, and this session has none: open it with metastore.spark.connect(spark, conf)"
            )
        return engine

    def close(self) -> None:
        """Close the engines that were created here."""
        while self._engines:
            _, engine = self._engines.popitem()
            engine.close()

    def _engine(self, name: EngineName) -> Engine:
        if name not in self._engines:
            self._engines[name] = LocalEngine(self._settings.processes) if name == "local" else self._new_spark()
        return self._engines[name]

    def _new_spark(self) -> Engine:
        if self._spark is None:
            raise EngineError(
                "drill.metastore.engine.kind is spark, and this session was given no Spark: "
                "open it with metastore.spark.connect(spark, conf)"
            )
        return self._spark()
