"""An open metastore: shared, pickled, closed; and the registry that opens one for each implementation."""

from __future__ import annotations

import dataclasses
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from metastore.components.metastore import Metastore, MetastoreRegistry
from metastore.config.settings import Settings
from metastore.errors import ConfigError, FormatError
from metastore.ground.clock import Clock
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]
OpenMetastore = Callable[..., Metastore]
PATIENCE_S = 60
HOUR_MS = 3_600_000

ELSEWHERE = """
import json, pickle, sys
from metastore.model.vocabulary import MetadataType

with pickle.load(sys.stdin.buffer) as metastore:
    [unit] = metastore.tables.read().metadata_types(MetadataType.ALL).execute()
    version = metastore.tables.modify().overwrite([type(unit)(**{**vars(unit), "owner": "elsewhere"})]).execute()
    print(json.dumps([unit.owner, version]))
"""


class Special(Metastore):
    """Another implementation."""


class Slow(Metastore):
    """One whose first opening leaves a second one time to begin."""

    opened: ClassVar[list[str]] = []
    second = threading.Event()

    @classmethod
    def open(cls, conf: str | Path | Settings | None = None, *, clock: Clock | None = None) -> Metastore:
        """Count, and wait for another."""
        cls.opened.append(threading.current_thread().name)
        if len(cls.opened) > 1:
            cls.second.set()
        cls.second.wait(0.5)
        return super().open(conf, clock=clock)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """A metastore below the test's folder."""
    location = {"base_path": str(tmp_path), "relative_path": "metastore"}
    return Settings.from_mapping({"drill.metastore.iceberg.location": location}, environ={})


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> str:
    """This module as others import it; the part of a class path before the name."""
    monkeypatch.setitem(sys.modules, "implementations", sys.modules[__name__])
    return "implementations"


def owners(metastore: Metastore) -> list[str | None]:
    """Owners of the units that stand."""
    return [unit.owner for unit in metastore.tables.read().metadata_types(MetadataType.ALL).execute()]


class TestMetastore:
    def test_it_is_a_context(self, settings: Settings) -> None:
        """Entering gives the metastore itself, leaving hides no error."""
        metastore = Metastore.open(settings)
        with metastore as entered:
            assert entered is metastore
        error = KeyError("theirs")
        with pytest.raises(KeyError) as raised, metastore:
            raise error
        assert raised.value is error

    def test_a_component_is_one_object(self, metastore: Metastore) -> None:
        """So that its expiration runs once and its caches are shared."""
        assert metastore.tables is metastore.tables
        assert metastore.views is metastore.views
        assert metastore.materialized_views is metastore.materialized_views
        assert metastore.tables.requests is metastore.tables.requests

    def test_a_component_that_is_not_configured_is_named_by_its_key(self, settings: Settings) -> None:
        """Settings made in code may lack it: the error says which key is missing."""
        without = dataclasses.replace(settings, iceberg=dataclasses.replace(settings.iceberg, components={}))
        with (
            Metastore.open(without) as metastore,
            pytest.raises(ConfigError, match=r"drill\.metastore\.iceberg\.components\.tables\.location is not conf"),
        ):
            _ = metastore.tables

    def test_it_opens_from_a_folder_of_configuration(self, tmp_path: Path, unit: MakeUnit) -> None:
        """The settings are those of the file; nothing is created by opening."""
        conf = tmp_path / "conf"
        conf.mkdir()
        text = f'drill.metastore.iceberg.location {{ base_path: "{tmp_path}/data", relative_path: "m" }}'
        (conf / "drill-metastore-override.conf").write_text(text)
        with Metastore.open(conf) as metastore:
            assert not (tmp_path / "data").exists()
            metastore.tables.modify().overwrite([unit()]).execute()
        assert list((tmp_path / "data/m/tables/dfs/tmp/nation").glob("*.parquet"))

    @pytest.mark.parametrize(
        ("change", "told"),
        [
            ({"format-version": 3, "next-row-id": 0}, "has format version 3; versions 1 and 2 can be used"),
            (
                {"partition-specs": [{"spec-id": 0, "fields": []}]},
                "is partitioned by nothing, but component tables needs",
            ),
        ],
    )
    def test_a_table_of_another_form_is_left_alone(
        self,
        settings: Settings,
        metastore: Metastore,
        unit: MakeUnit,
        tmp_path: Path,
        change: dict[str, object],
        told: str,
    ) -> None:
        """At a component's place may be a table that another program changed: it is not read, and not written to."""
        metastore.tables.modify().overwrite([unit("a")]).execute()
        newest = max((tmp_path / "metastore/tables/metadata").glob("v*.metadata.json"))
        newest.write_text(json.dumps({**json.loads(newest.read_text()), **change}))
        before = sorted(tmp_path.rglob("*"))
        with Metastore.open(settings) as opened:
            with pytest.raises(FormatError, match=told):
                opened.tables.read().metadata_types(MetadataType.ALL).execute()
            with pytest.raises(FormatError, match=told):
                opened.tables.modify().overwrite([unit("b")]).execute()
            with pytest.raises(FormatError, match=told):
                opened.tables.initialize()
        assert sorted(tmp_path.rglob("*")) == before


class TestPickle:
    def test_it_pickles_as_its_settings(self, open_metastore: OpenMetastore, unit: MakeUnit) -> None:
        """Neither caches nor threads go along: the copy is as small after work as before, and reads afresh."""
        metastore = open_metastore(cache={"size": "1M"})
        before = pickle.dumps(metastore)
        metastore.tables.modify().overwrite([unit(schema="x" * 10_000)]).execute()
        assert pickle.dumps(metastore) == before
        with pickle.loads(before) as copy:  # noqa: S301 - our own bytes
            assert type(copy) is Metastore
            assert copy.settings == metastore.settings
            assert copy.settings.iceberg.cache_bytes == 2**20
            assert copy.tables.metadata.version == metastore.tables.metadata.version

    def test_another_process_opens_it_anew(self, metastore: Metastore, unit: MakeUnit) -> None:
        """It reads what stands and writes beside us; we see it."""
        metastore.tables.modify().overwrite([unit(owner="here")]).execute()
        done = subprocess.run(
            [sys.executable, "-c", ELSEWHERE], check=False, input=pickle.dumps(metastore), capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()
        read, version = json.loads(done.stdout)
        assert read == "here"
        assert metastore.tables.metadata.version == version
        assert owners(metastore) == ["elsewhere"]


class TestClose:
    @pytest.mark.parametrize("leaving", [False, True], ids=["by close", "by leaving"])
    def test_no_further_expiration_starts(
        self, open_metastore: OpenMetastore, unit: MakeUnit, now: SimpleNamespace, leaving: bool
    ) -> None:
        """Writes still land after it, but expire nothing, however long ago the last run was."""
        metastore = open_metastore(expiration={"period": {"hours": 1}})

        def write_after_an_hour(owner: str) -> None:
            now.ms += HOUR_MS + 1
            metastore.tables.modify().overwrite([unit(owner=owner)]).execute()
            metastore.tables.expiration_worker.join()

        write_after_an_hour("0")
        write_after_an_hour("1")
        runs = metastore.tables.expiration_worker.runs
        assert runs > 0
        if leaving:
            with metastore:
                pass
        else:
            metastore.close()
        before = len(metastore.tables.metadata.history())
        write_after_an_hour("2")
        write_after_an_hour("3")
        assert metastore.tables.expiration.is_due()
        assert metastore.tables.expiration_worker.runs == runs
        assert len(metastore.tables.metadata.history()) == before + 2
        assert owners(metastore) == ["3"]

    def test_it_may_be_closed_twice(self, metastore: Metastore, unit: MakeUnit) -> None:
        """Before and after use."""
        metastore.close()
        metastore.tables.modify().overwrite([unit(owner="me")]).execute()
        metastore.close()
        assert owners(metastore) == ["me"]


class TestRegistry:
    def test_the_default_implementation(self, settings: Settings, unit: MakeUnit) -> None:
        """By no name, by the constant, and by its class path it is one and the same open metastore."""
        registry = MetastoreRegistry(settings)
        metastore = registry.get()
        assert type(metastore) is Metastore
        assert metastore.settings is settings
        assert registry.get(MetastoreRegistry.DEFAULT) is metastore
        assert registry.get(f"{Metastore.__module__}.{Metastore.__qualname__}") is metastore
        registry.close()

    def test_an_implementation_by_class_path(self, settings: Settings, registered: str, unit: MakeUnit) -> None:
        """Each class has its own; they see the same store."""
        registry = MetastoreRegistry(settings)
        special = registry.get(f"{registered}.Special")
        assert type(special) is Special
        assert registry.get() is not special
        special.tables.modify().overwrite([unit(owner="me")]).execute()
        assert owners(registry.get()) == ["me"]
        registry.close()

    @pytest.mark.parametrize(
        "path",
        [
            "no.such.module.Metastore",
            "metastore.metastore.NoSuchClass",
            "metastore.no_such_module.Metastore",
            "Metastore",
            "",
            ".",
            ".Metastore",
            "metastore..Metastore",
        ],
    )
    def test_an_implementation_that_is_not_there(self, settings: Settings, path: str) -> None:
        """ConfigError says which was asked for, whatever is wrong with its path."""
        with pytest.raises(ConfigError) as refused:
            MetastoreRegistry(settings).get(path)
        assert str(refused.value).startswith(f"there is no metastore implementation {path!r}: ")

    @pytest.mark.parametrize(
        "path",
        [
            "metastore.metastore.MetastoreRegistry",
            "metastore.components.metastore.Path",
            "metastore.components.metastore.TABLES",
            "json.load",
        ],
    )
    def test_what_is_no_metastore(self, settings: Settings, path: str) -> None:
        """Classes of other kinds, values and functions are refused, before anything of them is called."""
        with pytest.raises(ConfigError, match=f"'{path}' is not a metastore.*subclass of {MetastoreRegistry.DEFAULT}"):
            MetastoreRegistry(settings).get(path)

    def test_a_refused_one_spoils_nothing(self, settings: Settings) -> None:
        """The next request is answered."""
        registry = MetastoreRegistry(settings)
        with pytest.raises(ConfigError):
            registry.get("no.such.Metastore")
        assert type(registry.get()) is Metastore
        registry.close()

    def test_wrong_configuration_is_told_when_it_is_used(self, tmp_path: Path) -> None:
        """Not when the registry is made."""
        registry = MetastoreRegistry(tmp_path / "nowhere")
        with pytest.raises(ConfigError, match="nowhere"):
            registry.get()

    def test_close_and_open_anew(
        self, settings: Settings, unit: MakeUnit, monkeypatch: pytest.MonkeyPatch, registered: str
    ) -> None:
        """Every one that was opened is closed; what comes after is another object over the same store."""
        closed: list[Metastore] = []
        close = Metastore.close

        def note(self: Metastore) -> None:
            closed.append(self)
            close(self)

        monkeypatch.setattr(Metastore, "close", note)
        registry = MetastoreRegistry(settings)
        first, special = registry.get(), registry.get(f"{registered}.Special")
        first.tables.modify().overwrite([unit(owner="me")]).execute()
        registry.close()
        assert closed == [first, special]
        again = registry.get()
        assert again is not first
        assert owners(again) == ["me"]
        registry.close()
        assert closed == [first, special, again]

    def test_threads_share_one(self, settings: Settings, registered: str) -> None:
        """Many that ask at the same time, while it is still being opened, get the same; it is opened once."""
        registry = MetastoreRegistry(settings)
        Slow.opened.clear()
        Slow.second.clear()
        start = threading.Barrier(8, timeout=PATIENCE_S)

        def get(_: int) -> Metastore:
            start.wait()
            return registry.get(f"{registered}.Slow")

        with ThreadPoolExecutor(8) as pool:
            metastores = {id(metastore) for metastore in pool.map(get, range(8))}
        assert len(metastores) == 1
        assert len(Slow.opened) == 1
        registry.close()
