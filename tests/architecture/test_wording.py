"""`.ci/wording.py` measures plain English: it counts sentences as a reader does, and finds the phrases to avoid."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).parents[2] / ".ci/wording.py"


@pytest.fixture(scope="module")
def wording() -> ModuleType:
    """The script, as a module."""
    spec = importlib.util.spec_from_file_location("wording", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["wording"] = module
    spec.loader.exec_module(module)
    return module


def test_documents_and_docstrings_keep_to_the_limits(wording: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    """Every guide, note and package; the script says what exceeds which limit."""
    failed = wording.main([])
    assert (failed, capsys.readouterr().out) == (0, "")


@pytest.mark.parametrize(
    ("text", "words"),
    {
        "One sentence. And another one, with `some.code()` in it!": [2, 7],
        "A [link](https://example.org/a.b) is a word. (So is this.)": [5, 3],
        "- an item\n- another item. Two sentences": [2, 2, 2],
        "# A heading\n\n| a | table |\n|---|---|\n\n```\ncode. Code.\n```\n\nText.": [1],
        "Version 3.11 is one number. Is it?": [5, 2],
        "See e.g. This one.": [4],
    }.items(),
)
def test_a_sentence_is_counted_once(wording: ModuleType, text: str, words: list[int]) -> None:
    """Code is a word; headings, tables and blocks of code do not count."""
    found = [each for paragraph in wording.prose(text) for each in wording.sentences(paragraph)]
    assert [sum(any(c.isalnum() for c in word) for word in each.split()) for each in found] == words


def test_a_phrase_to_avoid_is_found_in_a_docstring(wording: ModuleType, tmp_path: Path) -> None:
    """With its sentence, wherever the docstring stands; code and comments are not searched."""
    path = tmp_path / "module.py"
    path.write_text('"""Fine."""\n# so many\nLIMIT = "so many"\n"""At most\nso many files. Fine."""\n')
    measured = wording.measure("module", wording.docstrings(path))
    assert measured.avoided == ("'so many': At most so many files.",)
    assert (measured.words, measured.sentences) == (7, 3)


def test_a_phrase_to_avoid_is_found_in_a_message(wording: ModuleType, tmp_path: Path) -> None:
    """In texts of code, with or without expressions; docstrings are for the other measure."""
    path = tmp_path / "module.py"
    path.write_text('"""Is passed over."""\nraise ValueError(f"catalog {name} is " "passed over", "so many")\n')
    texts = list(wording.messages(path))
    assert texts == ["catalog X is passed over", "so many"]
    found = [[phrase for phrase, avoid in wording.AVOIDED_IN_MESSAGES.items() if avoid.search(text)] for text in texts]
    assert found == [["is passed over"], ["so many"]]
