"""Hadoop's file system for S3, ``s3a``, for a Spark session: some 700 MB from Maven Central."""

from __future__ import annotations

from pathlib import Path

import pyspark
from services.maven import class_path

from metastore.engines.java import find_java


def jars(folder: Path) -> list[str]:
    """The files that Spark needs for ``s3a``, of the version of Hadoop that it has; ``folder`` is for their list."""
    [client] = Path(pyspark.__file__).parent.glob("jars/hadoop-client-api-*.jar")
    version = client.stem.rpartition("-")[2]
    pom = Path(__file__).with_name("pom.xml")
    return class_path(pom, folder / "classpath", find_java().home, hadoop=version).split(":")
