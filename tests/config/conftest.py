"""A directory of configuration files, written by the test."""

from collections.abc import Callable
from pathlib import Path

import pytest

WriteConf = Callable[..., Path]


@pytest.fixture
def write_conf(tmp_path: Path) -> WriteConf:
    """Write ``override="…"``, ``distrib="…"``, ``module="…"``, ``main="…"`` or ``{"name.conf": "…"}``; the folder."""
    names = {
        "main": "drill-override.conf",
        "module": "drill-metastore-module.conf",
        "distrib": "drill-metastore-distrib.conf",
        "override": "drill-metastore-override.conf",
    }

    def write(others: dict[str, str] | None = None, **tiers: str) -> Path:
        directory = tmp_path / "site"
        directory.mkdir(exist_ok=True)
        for name, text in ((others or {}) | {names[tier]: text for tier, text in tiers.items()}).items():
            (directory / name).write_text(text, encoding="utf-8")
        return directory

    return write
