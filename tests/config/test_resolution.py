"""Documents laid over one another keep HOCON's rules; checked on texts, through the parser."""

from functools import reduce
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.config.hocon import document_of, parse_document, read_document
from metastore.config.resolution import ABSENT, Node, Resolution, Unresolvable, overlay
from metastore.errors import ConfigError

scalars = st.one_of(st.none(), st.booleans(), st.integers(), st.sampled_from(["", "x", "0", "false", "ü"]))
flat_documents = st.lists(st.dictionaries(st.sampled_from(["a.x", "a.y", "b", "c.d.e", "c.d.f"]), scalars), max_size=4)


def resolution(*texts: str, environ: dict[str, str] | None = None) -> Resolution:
    """The texts merged, the last one on top."""
    merged: Node = reduce(overlay, (parse_document(text).root for text in texts), {})
    return Resolution(merged, environ or {}, lambda key: f"line of {key[-1]}")


def resolved(*texts: str, environ: dict[str, str] | None = None) -> Any:
    """Everything the merged texts say."""
    return resolution(*texts, environ=environ).get(())


@given(st.lists(scalars, min_size=1, max_size=4))
def test_the_latest_scalar_wins(values: list[object]) -> None:
    """Whatever a later document sets wins, false, 0, the empty string and null included."""
    merged: Node = reduce(overlay, (document_of({"a.b": value}).root for value in values))
    assert merged == {"a": {"b": values[-1]}}


@given(flat_documents)
def test_documents_merge_key_by_key(documents: list[dict[str, object]]) -> None:
    """Merged documents hold what one dict of full keys would after updating it with each in turn."""
    expected: dict[str, object] = {}
    for document in documents:
        expected.update(document)
    merged: Node = reduce(overlay, (document_of(document).root for document in documents), {})
    assert merged == document_of(expected).root


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (("a=${z.root}/m", "z.root=drill", "z.root=other"), {"a": "other/m", "z": {"root": "other"}}),
        (('p="/x"', 'p=${p}":/y"', 'p=${p}":/z"'), {"p": "/x:/y:/z"}),
        (("a{p=x, p=${a.p}y}", "a.p=${a.p}z"), {"a": {"p": "xyz"}}),
        (('a.p=${?a.p}":y"',), {"a": {"p": ":y"}}),
        (("a=1", "a=${?NOT_SET}"), {"a": 1}),
        (("a=1\na=${?NOT_SET}",), {"a": 1}),
        (("a=${?NOT_SET}",), {}),
        (("a{x=1}", "a=${?NOT_SET}"), {"a": {"x": 1}}),
        (("d{l=[1]}", "d{l+=2\nl+=3 s}", "d.l=${d.l}[4]"), {"d": {"l": [1, 2, "3 s", 4]}}),
        (('d.packages += "org.x"',), {"d": {"packages": ["org.x"]}}),
        (("b{x=1}\na=${b}{y=2}", "b.x=3"), {"a": {"x": 3, "y": 2}, "b": {"x": 3}}),
        (("b{x=1}", "a{q=1}", "a=${b}"), {"a": {"q": 1, "x": 1}, "b": {"x": 1}}),
        (("a=${b.c}\nb=${d}\nd.c=7",), {"a": 7, "b": {"c": 7}, "d": {"c": 7}}),
        (("a{x=1}", "a=5"), {"a": 5}),
        (("a{x=1}", "a=null", "a{y=2}"), {"a": {"y": 2}}),
        (("x=true\na=is ${x} so",), {"x": True, "a": "is true so"}),
        (("b{x=1}\na=${b}\na{y=2}",), {"b": {"x": 1}, "a": {"x": 1, "y": 2}}),
        (("b{x=1}\na=${b}", "a.y=2", "b.z=3"), {"b": {"x": 1, "z": 3}, "a": {"x": 1, "z": 3, "y": 2}}),
        (("a{x=1}", "a=5\na.y=2"), {"a": {"y": 2}}),
        (("b=5\na{x=1}", "a=${b}\na.y=2"), {"b": 5, "a": {"y": 2}}),
        (("a=${?n} x\nb=y ${?n}",), {"a": " x", "b": "y "}),
        (("a{x=${?a}, y=1}",), {"a": {"y": 1}}),
    ],
)
def test_substitution(texts: tuple[str, ...], expected: dict[str, object]) -> None:
    """Names see the final value; a key inside itself, and +=, see the value below; nothing leaves what is below."""
    assert resolved(*texts) == expected


def test_names_in_an_included_file_are_looked_up_there_first(tmp_path: Path) -> None:
    """In the object that includes the file, then at the top, whatever tier sets them."""
    (tmp_path / "inner.conf").write_text("a = ${name}, b = ${other}")
    (tmp_path / "top.conf").write_text('o.p { include "inner" }\nname = top, other = top')
    roots = [read_document(tmp_path / "top.conf").root, parse_document("o.p.name = within").root]
    merged: Node = reduce(overlay, roots, {})
    found = Resolution(merged, {}, ".".join).get(("o", "p"))
    assert found == {"a": "within", "b": "top", "name": "within"}


def test_a_key_goes_before_the_environment() -> None:
    """A name is looked up in the environment only when no document has it."""
    environ = {"HOME": "/env", "BASE": "/base"}
    assert resolved("a=${HOME}\nb=${BASE}", "HOME=/file", environ=environ) == {
        "a": "/file",
        "b": "/base",
        "HOME": "/file",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a.b=x${nowhere}", r"a\.b \(line of b\) refers to \$\{nowhere\}, which is neither"),
        ("a=${b}\nb=${c}\nc=${a}", r"refers to itself: \w -> \w -> \w -> \w"),
        ("a=${a}", r"a \(line of a\) refers to \$\{a\}"),
        ("b{x=1}\na=text ${b}", r"a \(line of a\) joins an object or a list with a value of another kind"),
    ],
)
def test_unresolvable(text: str, message: str) -> None:
    """A name without a value, a circle, and an object within text are errors that name the key and its place."""
    key = text.split("=", maxsplit=1)[0] if "b{" not in text else "a"
    with pytest.raises(ConfigError, match=message):
        resolution(text).get(tuple(key.split(".")))


def test_an_object_is_had_though_one_of_its_values_cannot_be_resolved() -> None:
    """Whoever reads that value gets the error; the others are as they are."""
    found = resolved("a { x=${nowhere}, y=1 }")
    assert found["a"]["y"] == 1
    assert isinstance(found["a"]["x"], Unresolvable)
    assert "refers to ${nowhere}" in str(found["a"]["x"].error)


def test_only_what_is_asked_for_is_resolved() -> None:
    """A key that refers to something unknown hurts nobody who does not ask for it."""
    merged = resolution("foreign=${of.another.program}\nours.key=1")
    assert merged.get(("ours", "key")) == 1
    assert merged.get(("ours", "other")) is ABSENT
