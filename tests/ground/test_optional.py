"""Libraries that only some calls need: what is missing is an error that says what to install."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

CALLS = {
    "pandas of a scan": ("pandas", "ms.tables.scan('dfs.w.t').to_pandas()"),
    "pandas of units": ("pandas", "ms.tables.read().metadata_types('ALL').to_pandas()"),
    "Polars of a scan": ("polars", "ms.tables.scan('dfs.w.t').to_polars()"),
    "DuckDB of a statement": ("duckdb", "ms.sql('SELECT 1')"),
}


@pytest.mark.parametrize(("module", "call"), CALLS.values(), ids=CALLS)
def test_a_missing_library_is_named_with_the_way_to_install_it(
    tmp_path_factory: pytest.TempPathFactory, module: str, call: str
) -> None:
    """In an interpreter in which the import fails, as in the plain installation."""
    folder = tmp_path_factory.mktemp("plain")
    program = textwrap.dedent(f"""
        import pathlib, sys, pyarrow as pa, pyarrow.parquet as pq, metastore
        from metastore.config import Settings
        pathlib.Path({str(folder)!r}, "t").mkdir()
        pq.write_table(pa.table({{"id": [1]}}), {str(folder / "t" / "a.parquet")!r})
        given = {{
            "drill.metastore.iceberg.location.base_path": {str(folder / "metastore")!r},
            "drill.metastore.storage.dfs.workspaces.w.location": {str(folder)!r},
        }}
        with metastore.connect(Settings.from_mapping(given, environ={{}})) as ms:
            ms.analyze("dfs.w.t")
            sys.modules[{module!r}] = None
            try:
                {call}
            except metastore.InvalidRequestError as error:
                print(error)
    """)
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert f"needs {module}: pip install" in said
