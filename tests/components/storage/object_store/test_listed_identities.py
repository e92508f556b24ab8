"""Which files stand, told by a listing: the same as by asking for each, whatever else lies in the folder."""

from __future__ import annotations

import random
from itertools import product

import pytest
from obstore.store import ObjectStore

from metastore.lake.stores.hadoop_properties import file_io_properties
from metastore.lake.stores.objects.object_store import ObjectPointers
from metastore.lake.stores.objects.object_store_client import Buckets

SPELLINGS = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
NUMBERS = (1, 2, 8, 9, 10, 11, 19, 20, 98, 99, 100, 101, 110, 999, 1000)


@pytest.mark.parametrize("page", [1, 2, 7, 1000])
def test_as_by_asking_for_each(bucket: ObjectStore, hadoop: dict[str, str], root: str, page: int) -> None:
    """For any two versions that follow each other, whichever stand, and with pages of any size."""
    pointers = ObjectPointers(Buckets(file_io_properties(root, hadoop)), page=page)
    draw = random.Random(page)
    names = [f"v{number}{spelling}" for number, spelling in product(NUMBERS, SPELLINGS)]
    others = ["0-m0.avro", "snap-1.avro", "v", "v1-x", "v9.metadata.jso", "v10.metadata.json.tmp", "version-hint.text"]
    for name in (*draw.sample(names, len(names) // 2), *others):
        bucket.put(f"t/metadata/{name}", name.encode())
    bucket.put("t/metadata/v9.metadata.json/below", b"")
    for number in NUMBERS:
        asked = [f"v{each}{spelling}" for each in (number, number + 1) for spelling in SPELLINGS]
        each_by_itself = pointers.identities([f"{root}/t/metadata/{name}" for name in asked])
        assert pointers.identities_in(f"{root}/t/metadata", asked) == each_by_itself


def test_a_new_file_has_another_identity(pointers: ObjectPointers, bucket: ObjectStore, root: str) -> None:
    """One that was put over another, and one that took its name after it was gone."""
    seen = set()
    for content in (b"one", b"two", b"three"):
        bucket.put("t/metadata/v1.metadata.json", content)
        seen.update(pointers.identities_in(f"{root}/t/metadata", ["v1.metadata.json"]))
        bucket.delete("t/metadata/v1.metadata.json")
    assert len(seen) == 3
    assert pointers.identities_in(f"{root}/t/metadata", ["v1.metadata.json"]) == [None]
