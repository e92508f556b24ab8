"""Damaged and hostile input, given to the package in a process of its own: folder, target, seed and rounds.

The process may not grow beyond a bound. It prints, as JSON, how each kind of outcome was counted, and whatever was
neither an answer nor an error of the package.
"""

from __future__ import annotations

import json
import random
import resource
import sys
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from safety.mutations import broken_bytes, broken_text
from safety.worlds import ComponentWorld, LakeWorld, World, unit

from metastore.components.metastore import Metastore
from metastore.config.settings import Settings, load_text
from metastore.errors import MetastoreError
from metastore.model.vocabulary import MetadataType
from metastore.session import Session

Trial = tuple[str, Callable[[], object]]

GROWTH_BYTES: Final = 2 << 30
"""How much more address space an input may take than all inputs before had; the libraries reserve much of it unused."""

READ_BACK: Final = 100
"""So many units stand at most when all of them are read back; else the time would be the square of their number."""


def hocon(folder: Path, chance: random.Random, rounds: int) -> Iterator[Trial]:
    """Configuration files, cut, spliced and stirred."""
    repository = Path(__file__).parents[2]
    texts = [path.read_text() for path in (repository / "conf").glob("*.conf")]
    texts.append((repository / "metastore/config/reference.conf").read_text())
    for _ in range(rounds):
        text = broken_text(chance.choice(texts), chance)
        yield text, partial(load_text, text, environ={}, cwd=folder)


def statements(folder: Path, chance: random.Random, rounds: int) -> Iterator[Trial]:
    """SQL: CALL of procedures, SELECT, ANALYZE, ALTER, views."""
    with _analyzed(folder) as session:
        for _ in range(rounds):
            text = broken_text(chance.choice(STATEMENTS), chance)
            yield text, partial(session.sql, text)


def filters(folder: Path, chance: random.Random, rounds: int) -> Iterator[Trial]:
    """Filters of reads and deletes, predicates of pruning."""
    (folder / "others").mkdir()
    others = Metastore.open(Settings.from_mapping(_location(folder / "others"), environ={}))
    others.tables.modify().overwrite([unit("t")]).execute()
    with _analyzed(folder) as session:

        def found(text: str) -> object:
            return session.tables.read().metadata_types(MetadataType.ALL).filter(text).execute()

        def deleted(text: str) -> object:
            return others.tables.modify().delete(text).execute()

        for _ in range(rounds):
            text = broken_text(chance.choice(FILTERS), chance)
            yield text, partial(found, text)
            yield text, partial(session.prune, "dfs.tmp.t", text)
            yield text, partial(deleted, text)


def units(folder: Path, chance: random.Random, rounds: int) -> Iterator[Trial]:
    """Keys that want to be paths, control characters, lone surrogates, very long; whatever is taken is given back."""
    settings = Settings.from_mapping(_location(folder), environ={})
    with Metastore.open(settings) as metastore:

        def there_and_back(keys: dict[str, Any]) -> None:
            given = replace(unit("x"), **keys, metadata_type="SEGMENT")
            metastore.tables.modify().overwrite([given]).execute()
            found = metastore.tables.read().metadata_types(MetadataType.ALL).execute()
            if given not in found:
                raise AssertionError(f"written and not read back: {given!r}")

        for number in range(rounds):
            if number % READ_BACK == READ_BACK - 1:
                metastore.tables.modify().purge()
            keys = {"storage_plugin": "dfs", "workspace": "tmp", "table_name": "t", "metadata_key": "k"}
            keys |= {name: _hostile(chance) for name in chance.sample(sorted(keys), chance.randint(1, 3))}
            yield repr(keys), partial(there_and_back, keys)


def component(folder: Path, chance: random.Random, rounds: int) -> Iterator[Trial]:
    """Files of a component, damaged on the store: version files, manifest lists, manifests, data."""
    world = ComponentWorld(folder)

    def use() -> None:
        with world.session(days=10) as session:
            session.tables.read().metadata_types(MetadataType.ALL).execute()
        with world.session(days=10) as session:
            session.tables.modify().overwrite([unit("new")]).delete("tableName = 'a'").execute()
        with world.session(days=10) as session:
            session.tables.expiration.expire()
            world.call(session, "remove_orphan_files")

    yield from _damaged(world, use, chance, rounds)


def lake(folder: Path, chance: random.Random, rounds: int) -> Iterator[Trial]:
    """Files of a table of others, damaged on the store, under the procedures."""
    world = LakeWorld(folder)

    def use() -> None:
        with world.session(days=10) as session:
            world.call(session, "rewrite_manifests")
        with world.session(days=10) as session:
            world.call(session, "rewrite_data_files", options={"min-input-files": "2"})
        with world.session(days=10) as session:
            world.expire(session)
            world.call(session, "remove_orphan_files")

    yield from _damaged(world, use, chance, rounds)


def sources(folder: Path, chance: random.Random, rounds: int) -> Iterator[Trial]:
    """Damaged Parquet files under ANALYZE and scans."""
    with _analyzed(folder) as session:
        path = folder / "data/t/a.parquet"
        good = path.read_bytes()

        def use() -> None:
            session.analyze("dfs.tmp.t", statistics=True)
            session.tables.scan("dfs.tmp.t").to_arrow()

        for _ in range(rounds):
            label, content = broken_bytes(good, chance)
            path.write_bytes(content)
            yield label, use


TARGETS: Final[dict[str, Callable[[Path, random.Random, int], Iterator[Trial]]]] = {
    each.__name__: each for each in (hocon, statements, filters, units, component, lake, sources)
}

STATEMENTS: Final = (
    "CALL metastore.system.expire_snapshots(schema => 'components', table_name => 'tables', retain_last => 2)",
    "CALL metastore.system.remove_orphan_files('components', 'tables', TIMESTAMP '2020-01-01 00:00:00 UTC')",
    "CALL metastore.system.rollback_to_snapshot('components', 'tables', 1)",
    "EXPLAIN CALL metastore.system.rewrite_manifests(schema => 'components', table_name => 'tables')",
    "SHOW PROCEDURES",
    "DESCRIBE dfs.tmp.t",
    "ANALYZE TABLE dfs.tmp.t COLUMNS (k, g) REFRESH METADATA 'FILE' LEVEL",
    "SELECT k, count(*) FROM dfs.tmp.t WHERE g = 1 AND k BETWEEN 1 AND 3 GROUP BY k ORDER BY k LIMIT 3",
    "SELECT TABLE_NAME FROM INFORMATION_SCHEMA.`TABLES` WHERE TABLE_SCHEMA LIKE 'dfs%'",
    "CREATE VIEW dfs.tmp.v AS SELECT k FROM dfs.tmp.t WHERE g IN (0, 1)",
    "DROP VIEW IF EXISTS dfs.tmp.v",
    "ALTER TABLE metastore.components.tables SET TBLPROPERTIES ('a' = 'b')",
)

FILTERS: Final = (
    "tableName = 't'",
    "tableName in ('a', 't') and metadataKey != 'GENERAL_INFO'",
    "lastModifiedTime > 10 or not (workspace = 'tmp')",
    "schema is null and isnan(lastModifiedTime)",
    "k = 1 AND g IN (1, 2) OR k BETWEEN 1 AND 2.5",
    "k > CAST('1' AS INT) AND g LIKE '1%'",
)


def _hostile(chance: random.Random) -> str:
    mild = ("~", "$HOME", "%2e%2e", "é", "\u202e", "a", "metadata", " ", "'", '"', "..a", "=", "\\", "?", "#", "*")
    wild = ("..", ".", "/", "\0", "\ud800", "\n", "x" * 300)
    return "".join(chance.choice(wild if chance.random() < 0.15 else mild) for _ in range(chance.randint(0, 4)))


def _location(folder: Path) -> dict[str, Any]:
    return {"drill.metastore.iceberg.location": {"base_path": str(folder), "relative_path": "metastore"}}


def _analyzed(folder: Path) -> Session:
    (folder / "data/t").mkdir(parents=True)
    rows = pa.table({"k": list(range(200)), "g": [n % 2 for n in range(200)], "s": [f"text {n}" for n in range(200)]})
    pq.write_table(rows, folder / "data/t/a.parquet", row_group_size=50)
    workspaces = {"tmp": {"location": str(folder / "data"), "writable": True}}
    given = {"drill.metastore": {"storage.dfs.workspaces": workspaces, "engine.processes": 1}}
    session = Session(Metastore.open(Settings.from_mapping({**_location(folder), **given}, environ={})))
    session.analyze("dfs.tmp.t")
    return session


def _damaged(world: World, use: Callable[[], None], chance: random.Random, rounds: int) -> Iterator[Trial]:
    for _ in range(rounds):
        world.put_back()
        files = sorted(path for path in world.table_folder.rglob("*") if path.is_file() and path != world.stray)
        path = chance.choice(files)
        label, content = broken_bytes(path.read_bytes(), chance)
        path.write_bytes(content)
        yield f"{path.name}: {label}", use


def main(folder: str, target: str, seed: str, rounds: str) -> None:
    """Try, and print what came out."""
    outcomes: Counter[str] = Counter()
    bad: list[tuple[str, str]] = []
    for label, trial in TARGETS[target](Path(folder), random.Random(int(seed)), int(rounds)):
        _bound()
        try:
            trial()
            outcomes["answered"] += 1
        except MetastoreError as error:
            outcomes[type(error).__name__] += 1
        except Exception as error:  # noqa: BLE001 - these are looked for
            outcomes["untyped"] += 1
            bad.append((label[:2000], "".join(traceback.format_exception(error))[-3000:]))
    sys.stdout.write(json.dumps({"outcomes": outcomes, "bad": bad}))


def _bound() -> None:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + GROWTH_BYTES, resource.RLIM_INFINITY))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(*sys.argv[1:])
