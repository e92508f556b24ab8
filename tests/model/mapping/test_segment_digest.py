"""Digests of segments: which partitions have one, and that nothing but a whole digest is ever taken for one."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.model.mapping.rows import to_arrow
from metastore.model.mapping.segment_digest import _USUAL, SegmentDigest, digest_of
from metastore.model.statistics import ColumnStatistics
from metastore.model.statistics_json import holder_json
from metastore.model.table_unit import TableMetadataUnit

KNOWN = ColumnStatistics("INT", 1, 9, nulls=0, non_nulls=4).to_json()


def unit(kind: str, identifier: str, key: str = "k=1", **more: Any) -> TableMetadataUnit:
    """A unit of a table in the partition of ``key``."""
    names: dict[str, Any] = {"storage_plugin": "dfs", "workspace": "tmp", "table_name": "t"}
    return TableMetadataUnit(**names, metadata_type=kind, metadata_key=key, metadata_identifier=identifier, **more)


def segment(key: str = "k=1", statistics: dict[str, str] | None = None, schema: str | None = "{}") -> TableMetadataUnit:
    """The SEGMENT unit of ``key``."""
    found = {"`n`": KNOWN} if statistics is None else statistics
    return unit("SEGMENT", key, key, columns_statistics=found, schema=schema)


def file(identifier: str, key: str = "k=1", size: int | None = 7) -> TableMetadataUnit:
    """A FILE unit."""
    return unit("FILE", identifier, key, metadata_statistics=() if size is None else (holder_json("length", size),))


def digest(units: Sequence[TableMetadataUnit]) -> SegmentDigest | None:
    """What is told of a partition of ``units``."""
    return SegmentDigest.from_bytes(digest_of(to_arrow(TableMetadataUnit, units)))


def test_a_partition_that_is_one_segment_has_a_digest() -> None:
    """Of the table's own folder too; a size is known if all are."""
    groups = [unit("ROW_GROUP", f"k=1/a/{number}") for number in range(3)]
    told = SegmentDigest(2, 3, 12, "{}", {"`n`": KNOWN})
    unsized = SegmentDigest(2, 0, None, "{}", told.statistics)
    assert digest([segment(), file("k=1/a"), file("k=1/b", size=5), *groups]) == told
    assert digest([segment(), file("k=1/a"), file("k=1/b", size=None)]) == unsized
    own = "DEFAULT_SEGMENT"
    assert digest([segment(own), file("a", own)]) == SegmentDigest(1, 0, 7, "{}", told.statistics)
    assert digest([segment(statistics={}, schema=None)]) == SegmentDigest(0, 0, 0, None, {})


@pytest.mark.parametrize(
    "units",
    [
        [file("k=1/a")],
        [segment(), unit("SEGMENT", "k=1/m=2"), file("k=1/m=2/a")],
        [segment(), unit("SEGMENT", "k=1/m=2"), file("k=1/a")],
        [segment(), file("k=1/m=2/a")],
        [segment(), file("k=2/a")],
        [segment(), file("a")],
        [unit("SEGMENT", "k=2", columns_statistics={"`n`": KNOWN})],
        [segment(statistics={f"`c{number}`": KNOWN for number in range(65)})],
        [segment(statistics={"`n`": KNOWN.replace("INT", "".join(map(chr, range(256, 4000))))})],
    ],
    ids=[
        "none",
        "nested",
        "empty below",
        "a file below",
        "a file elsewhere",
        "a file above",
        "other name",
        "wide",
        "long",
    ],
)
def test_others_have_none(units: list[TableMetadataUnit]) -> None:
    """Their files are opened as ever."""
    assert digest_of(to_arrow(TableMetadataUnit, units)) is None


@given(st.binary() | st.text().map(lambda text: zlib.compress(text.encode())))
def test_what_is_no_digest_is_none(content: bytes) -> None:
    """Damaged, cut, or of another program."""
    assert SegmentDigest.from_bytes(content) is None


def test_a_cut_or_newer_digest_is_none() -> None:
    """Every beginning of one, and one of another version."""
    content = digest_of(to_arrow(TableMetadataUnit, [segment(), file("k=1/a")]))
    assert content is not None
    assert all(SegmentDigest.from_bytes(content[:length]) is None for length in range(len(content)))
    assert SegmentDigest.from_bytes(content + b"x") is None
    assert SegmentDigest.from_bytes(None) is None
    newer = zlib.compressobj(zdict=_USUAL)
    assert SegmentDigest.from_bytes(newer.compress(b"[2,1,1,1,null,{}]") + newer.flush()) is None


def test_a_digest_is_small() -> None:
    """Of statistics as they are written most is the same."""
    content = digest_of(to_arrow(TableMetadataUnit, [segment(), file("k=1/a")]))
    assert content is not None
    assert len(content) < 150
