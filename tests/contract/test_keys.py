"""Keys become folders; none leaves the component's own, none is written before all are found safe."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from urllib.parse import unquote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from metastore.components.metastore import Metastore
from metastore.errors import InvalidRequestError
from metastore.model.table_unit import TableMetadataUnit
from metastore.model.vocabulary import MetadataType

MakeUnit = Callable[..., TableMetadataUnit]

UNSAFE_ANYWHERE = ["", ".", "..", "a\0b", "a\nb", "\x1b[2J", "\x7f", "x" * 256, "é" * 128, "%" * 86]
UNSAFE_NAMES = ["/", "..", "../../etc", "/../a", "a/../b", "a/./b", "a//b", "a/", "a/\0", "a/" + "x" * 256]


def files_of(folder: Path) -> list[Path]:
    """Every file below ``folder``."""
    return [Path(root) / name for root, _, names in os.walk(folder) for name in names]


class Keys:
    """Holds for the tables component on a catalog of the local disk; ``metastore`` lies below ``tmp_path``."""

    @pytest.mark.parametrize("value", [*UNSAFE_ANYWHERE, "a/b", "/a"], ids=ascii)
    @pytest.mark.parametrize("column", ["storage_plugin", "workspace"])
    def test_an_unsafe_plugin_or_workspace_is_refused(
        self, metastore: Metastore, unit: MakeUnit, tmp_path: Path, column: str, value: str
    ) -> None:
        """Slashes included; nothing is written, not even the good partitions beside it, nor an empty table."""
        with pytest.raises(InvalidRequestError):
            metastore.tables.modify().overwrite([unit("good"), unit(**{column: value})]).execute()
        assert files_of(tmp_path) == []

    @pytest.mark.parametrize("value", [*UNSAFE_ANYWHERE, *UNSAFE_NAMES], ids=ascii)
    def test_an_unsafe_table_name_is_refused(
        self, metastore: Metastore, unit: MakeUnit, tmp_path: Path, value: str
    ) -> None:
        """Each level of a nested name is checked the same way; nothing is written."""
        with pytest.raises(InvalidRequestError):
            metastore.tables.modify().overwrite([unit("good"), unit(value)]).execute()
        assert files_of(tmp_path) == []

    @pytest.mark.parametrize("name", ["a/b", "/a/b", "a/b/c.parquet", "1994/Q1"])
    def test_a_table_named_by_its_path_lies_in_nested_folders(
        self, metastore: Metastore, unit: MakeUnit, tmp_path: Path, name: str
    ) -> None:
        """A leading slash makes no level; the unit keeps the name it was given."""
        metastore.tables.modify().overwrite([unit(name)]).execute()
        [file] = [path for path in files_of(tmp_path) if path.suffix == ".parquet"]
        assert file.parent == tmp_path / "metastore/tables/dfs/tmp" / name.lstrip("/")
        assert [u.table_name for u in metastore.tables.read().metadata_types(MetadataType.ALL).execute()] == [name]

    def test_a_plugin_cannot_write_among_the_metadata(
        self, metastore: Metastore, unit: MakeUnit, tmp_path: Path
    ) -> None:
        """``metadata`` is the folder of Iceberg's own files."""
        metastore.tables.modify().overwrite([unit(storage_plugin="metadata")]).execute()
        assert not list((tmp_path / "metastore/tables/metadata").rglob("*.parquet"))
        [found] = metastore.tables.read().metadata_types(MetadataType.ALL).execute()
        assert found.storage_plugin == "metadata"

    @settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(
        plugin=st.text(st.characters(codec="utf-8", exclude_characters="/"), min_size=1, max_size=20),
        name=st.text(st.characters(codec="utf-8"), min_size=1, max_size=20),
        key=st.text(st.characters(codec="utf-8"), max_size=20),
    )
    def test_any_key_is_refused_or_comes_back_and_stays_inside(
        self, metastore: Metastore, unit: MakeUnit, tmp_path: Path, plugin: str, name: str, key: str
    ) -> None:
        """The file of an accepted key lies below the component, in folders whose names unquote to the key's parts."""
        written = unit(name, key, storage_plugin=plugin)
        metastore.tables.modify().purge()
        before = set(files_of(tmp_path))
        try:
            metastore.tables.modify().overwrite([written]).execute()
        except InvalidRequestError:
            assert set(files_of(tmp_path)) == before
            return
        assert metastore.tables.read().metadata_types(MetadataType.ALL).execute() == [written]
        component = tmp_path / "metastore/tables"
        [file] = [path for path in set(files_of(tmp_path)) - before if path.suffix == ".parquet"]
        assert file.resolve().is_relative_to(component.resolve())
        levels = [unquote(level) for level in file.relative_to(component).parent.parts]
        assert levels == [plugin, "tmp", *name.lstrip("/").split("/")]


class TestOnFileSystem(Keys):
    """The default catalog."""
