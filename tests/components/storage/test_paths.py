"""Folders of location keys: none leaves the component's location or its neighbours' folders, and none is shared."""

from __future__ import annotations

from pathlib import Path, PurePosixPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from metastore.components.storage.paths import LONGEST_FOLDER_BYTES, METADATA_FOLDER, folder_of
from metastore.errors import InvalidRequestError

COLUMNS = ("storagePlugin", "workspace", "tableName")
KEY = st.text(st.sampled_from("abmet/.%2F\\:*#é\x00") | st.characters(), max_size=6) | st.just(METADATA_FOLDER)
KEYS = st.tuples(KEY, KEY, KEY)


def folder(keys: tuple[str | None, ...]) -> str | None:
    """The folder of a table; None if its name is refused."""
    try:
        return folder_of(COLUMNS, keys)
    except InvalidRequestError:
        return None


@example(one=("metadata", "w", "t"), other=("%6Detadata", "w", "t"))
@example(one=("p", "w", "a/b"), other=("p", "w", "a%2Fb"))
@example(one=("p", "w", "a/../../../metadata"), other=("p", "..", "t"))
@given(one=KEYS, other=KEYS)
def test_each_table_has_a_folder_of_its_own(one: tuple[str, str, str], other: tuple[str, str, str]) -> None:
    """Inside the location, never in the folder of metadata; only a leading slash makes no other table, as in Drill."""
    first, second = folder(one), folder(other)
    for each in filter(None, (first, second)):
        levels = PurePosixPath(each).parts
        assert "/".join(levels) == each
        assert len(levels) >= len(COLUMNS)
        assert levels[0] != METADATA_FOLDER
        assert not {"..", "/"} & set(levels)
    if first is not None and first == second:
        assert (*one[:2], one[2].lstrip("/")) == (*other[:2], other[2].lstrip("/"))


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        ((None, "w", "t"), "'storagePlugin' must not be null"),
        (("p", "", "t"), "'' cannot name a folder"),
        (("p", "..", "t"), "'..' cannot name a folder"),
        (("p", "w", "a/../b"), "'..' cannot name a folder"),
        (("p", "a/b", "t"), "'workspace' must not hold a slash"),
        (("p", "w", "a\nb"), "'tableName' holds a control character"),
        (("p", "w", "a\ud800"), "'tableName' is not valid Unicode"),
        (("p", "w", "*" * 86), f"needs a folder name of 258 bytes, and {LONGEST_FOLDER_BYTES} is the most"),
    ],
)
def test_names_that_no_folder_can_have_are_refused(keys: tuple[str | None, ...], told: str) -> None:
    """The error names the column and the reason."""
    with pytest.raises(InvalidRequestError, match=told):
        folder_of(COLUMNS, keys)


@pytest.mark.parametrize("key", ["x" * LONGEST_FOLDER_BYTES, "*" * 85, 'a"<>|?', "é" * 127])
def test_names_that_are_allowed_name_a_folder(key: str, tmp_path: Path) -> None:
    """Of a local disk."""
    made = tmp_path / folder_of(COLUMNS, ("p", "w", key))
    made.mkdir(parents=True)
    assert made.is_dir()
