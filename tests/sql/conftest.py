"""A session with a procedure that takes one argument of each type, and returns them as it got them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.lake_table import Lake

from metastore.config import Settings
from metastore.procedures import Argument, Procedure, columns
from metastore.session import Session, connect

KINDS = {
    "text": "VARCHAR",
    "flag": "BOOLEAN",
    "small": "INTEGER",
    "big": "BIGINT",
    "real": "DOUBLE",
    "exact": "DECIMAL(5, 2)",
    "day": "DATE",
    "moment": "TIMESTAMP",
    "numbers": "ARRAY(BIGINT)",
    "options": "MAP(VARCHAR, ARRAY(VARCHAR))",
    "wide": "DECIMAL(38, 2)",
}


@pytest.fixture
def bare(tmp_path: Path) -> Iterator[Session]:
    """A session with the catalog ``lake``, nothing in it, and the procedures ``system.all`` and ``system.two``."""
    lake = {"type": "sql", "uri": f"sqlite:///{tmp_path}/lake.db", "warehouse": f"{tmp_path}/lake"}
    given = {"drill.metastore": {"iceberg.location.base_path": str(tmp_path), "catalogs.lake": lake}}
    arguments = [Argument(name, kind, required=False) for name, kind in KINDS.items()]
    echo = Procedure("system", "all", arguments, function=_all, result=columns(given=pa.string()))
    two = (Argument("first"), Argument("second", "BIGINT"), Argument("Third", required=False, default="x"))
    pair = Procedure("system", "two", two, function=_two, result=columns(given=pa.string()))
    with connect(Settings.from_mapping(given, environ={})) as session:
        session.procedures.register("lake", echo)
        session.procedures.register("lake", pair)
        yield session


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    """An empty lake."""
    made = Lake(tmp_path)
    with made.session:
        yield made


def _all(
    context: object,
    text: str | None = None,
    flag: bool | None = None,
    small: int | None = None,
    big: int | None = None,
    real: float | None = None,
    exact: Any = None,
    day: Any = None,
    moment: Any = None,
    numbers: Any = None,
    options: Any = None,
    wide: Any = None,
) -> dict[str, Any]:
    every = [text, flag, small, big, real, exact, day, moment, numbers, options, wide]
    return {"given": repr([each for each in every if each is not None]) if context else ""}


def _two(context: object, first: str, second: int, Third: str) -> dict[str, Any]:  # noqa: N803 - as it is declared
    return {"given": repr((first, second, Third)) if context else ""}
