"""Which format a table's files have, by name and by suffix."""

from __future__ import annotations

import pytest

from metastore.errors import InvalidRequestError
from metastore.lake.formats.names import format_named, format_of_files, format_of_suffix
from metastore.lake.formats.source_file import SourceFile


def files(*names: str) -> list[SourceFile]:
    """Files of these names."""
    return [SourceFile((), name, f"/t/{name}", 1, 1) for name in names]


@pytest.mark.parametrize(
    ("name", "format_"),
    [("a.parquet", "PARQUET"), ("a.ORC", "ORC"), ("a.avro", "AVRO"), ("a.csv.gz", "CSV"), ("a.tsv", "TSV"),
     ("a.json", "JSON"), ("a.jsonl.zst", "JSON"), ("a.ndjson", "JSON"), ("csv", None), ("a.txt", None),
     ("part-0", None), (".csv", None), ("a.gz", None)],
)  # fmt: skip
def test_a_suffix_tells_the_format(name: str, format_: str | None) -> None:
    """In any case, and before the suffix of a compression."""
    assert format_of_suffix(name) == format_


def test_all_files_are_of_one_format() -> None:
    """Files without a telling suffix go with the others; several formats are refused with an example of each."""
    assert format_of_files(files("a.csv", "part-0", "b.csv")) == "CSV"
    assert format_of_files(files("part-0")) is None
    with pytest.raises(InvalidRequestError, match=r"CSV \(/t/a\.csv\), JSON \(/t/b\.json\)"):
        format_of_files(files("a.csv", "b.json"))


def test_a_format_has_a_name() -> None:
    """In any case; another is refused with those that there are."""
    assert format_named("csv") == "CSV"
    with pytest.raises(InvalidRequestError, match="PARQUET, ORC"):
        format_named("xml")
