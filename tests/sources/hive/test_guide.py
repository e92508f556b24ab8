"""The examples of docs/guide/hive.md, run as they stand there, against the real service."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import pytest
from hive_metastore.ttypes import Database
from services.hive_tables import HiveMaker

import metastore
from metastore.sources.hive.client import HiveClient

pytestmark = pytest.mark.integration

GUIDE = (Path(metastore.__file__).parents[1] / "docs/guide/hive.md").read_text()


def test_the_examples(
    hive_client: HiveClient, hive_metastore: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after another, in one program."""
    monkeypatch.chdir(tmp_path)
    shop = _Shop(hive_client, tmp_path)
    name = shop.table({"id": "bigint"}, {"city": "string"})
    assert name == "orders"
    for city, ids in (("Ulm", [1]), ("Köln / Deutz", [2, 3, 4])):
        shop.write(shop.partition(name, city), {"id": ids})
    [configuration] = re.findall(r"```hocon\n(.*?)```", GUIDE, re.DOTALL)
    text = configuration.replace("thrift://localhost:9083", hive_metastore).replace("/srv/drill", str(tmp_path))
    (tmp_path / "site.conf").write_text(text)
    program: dict[str, object] = {}
    for example in re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL):
        exec(example, program)  # noqa: S102 - the guide is ours
    program["ms"].close()  # type: ignore[attr-defined]


class _Shop(HiveMaker):
    """The database of the guide, with tables of the guide's names."""

    def __init__(self, client: HiveClient, folder: Path) -> None:
        self.client = client
        self.folder = folder
        self.database = "shop"
        self.names = itertools.chain(["orders"])
        client._change("make a database", "create_database", Database("shop", "", f"file:{folder}", {}))

    def new_name(self) -> str:
        """As the guide has it."""
        return next(self.names)
