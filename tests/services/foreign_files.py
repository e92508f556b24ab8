"""Data files of other projects, out of the test jars that they publish: from Maven Central, by Maven."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest
from services.maven import class_path

from metastore.engines.java import find_java

_POM = Path(__file__).with_name("foreign_files") / "pom.xml"


@pytest.fixture(scope="session")
def foreign_files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Files of ORC and Parquet by Spark, Hive, Impala, Trino, ORC and others, of many releases."""
    folder = tmp_path_factory.mktemp("foreign")
    found: list[Path] = []
    for number, jar in enumerate(class_path(_POM, folder / "classpath", find_java().home).split(":")):
        with ZipFile(jar) as content:
            names = [name for name in content.namelist() if name.endswith((".orc", ".parquet"))]
            found += [Path(content.extract(name, folder / str(number))) for name in names]
    return found
