"""HOCON is read as it is written; includes stay local; every key can be placed."""

import contextlib
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metastore.config.hocon import Document, document_of, parse_document, read_document
from metastore.errors import ConfigError

fragments = st.sampled_from(
    [
        *'{}[]=:,+"\\#/$?. \n\t',
        "a",
        "b.c",
        '"a.b"',
        '""',
        '"""',
        "${a}",
        "1",
        "10 days",
        "true",
        "null",
        "+=",
        "//",
        "é",
    ]
)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The connections attempted; none of them is made."""
    attempts: list[object] = []

    def refuse(_: socket.socket, address: object) -> None:
        attempts.append(address)
        raise OSError("no network in tests")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *where, **_: refuse(socket.socket(), where))
    return attempts


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.x=512m\na.y=10 days # c\na.z={t=5 s}", {"a": {"x": "512m", "y": "10 days", "z": {"t": "5 s"}}}),
        ("a=[1d, 2 h]\nb=10 days ago\n10 m=1", {"a": ["1d", "2 h"], "b": "10 days ago", "10 m": 1}),
        ('"a.b".c=1', {"a.b": {"c": 1}}),
        ('a."b.c".d=1', {"a": {"b.c": {"d": 1}}}),
        ('a."b.c" : "x.y" , q=1', {"a": {"b.c": "x.y"}, "q": 1}),
        ('{ a: 1, "b": { c: [1, null,], }, }', {"a": 1, "b": {"c": [1, None]}}),
        ('a=s3a://b/c // note\nb="http://x#y" # note', {"a": "s3a://b/c", "b": "http://x#y"}),
        ('a="""one\n"two" // kept"""\nb=""', {"a": 'one\n"two" // kept', "b": ""}),
        ('a.é="ü"\n"б"="ю"', {"a": {"é": "ü"}, "б": "ю"}),
        (
            "a=000123456789, b=1.10\nc=[1e3, +5, .5, -0] # c\nd=0042//c",
            {"a": "000123456789", "b": "1.10", "c": ["1e3", "+5", ".5", "-0"], "d": "0042"},
        ),
        (
            "a=10, b=1.5, c=-3\nd=x 007\ne=1.10 x\nf=h:0123",
            {"a": 10, "b": 1.5, "c": -3, "d": "x 007", "e": "1.10 x", "f": "h:0123"},
        ),
        (r'a="\u00e9\/\b\f\n\r\t\"\\"', {"a": 'é/\b\f\n\r\t"\\'}),
        (
            r'a="C:\\temp\\new \\u0041", b="\ud83d\ude00", c="\u0000\u0002"',
            {"a": r"C:\temp\new \u0041", "b": "😀", "c": "\0\2"},
        ),
        (r'"k\u0041\"\\" = 1', {'kA"\\': 1}),
        ("\ufeffa=1", {"a": 1}),
        ("", {}),
        ("# nothing\n", {}),
    ],
)
def test_values_as_written(text: str, expected: dict[str, object]) -> None:
    """Quoted keys stay whole, comments go, and durations and sizes stay text for their readers."""
    assert parse_document(text).root == expected


@pytest.mark.parametrize(
    "statement",
    [
        'include "http://127.0.0.1:9/x.conf"',
        'include url("http://127.0.0.1:9/x.conf")',
        'include required(url("https://127.0.0.1:9/x.conf"))',
        'INCLUDE "https://127.0.0.1:9/x.conf"',
        'include file("s3://bucket/x.conf")',
        'include url("file:///etc/hostname")',
        'include classpath("x.conf")',
        'include package("os:x.conf")',
        'a { b = 1, include url("http://127.0.0.1:9/x") }',
        'a = include url("http://127.0.0.1:9/x")',
        'a += include url("http://127.0.0.1:9/x")',
        'a += x include url("http://127.0.0.1:9/x")',
        'a = x\\" include url("http://127.0.0.1:9/x")',
        'a = ${b"} include url("http://127.0.0.1:9/x")',
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_only_local_files_are_included(statement: str, nested: bool, tmp_path: Path, offline: list[object]) -> None:
    """Any other include is refused by file and line before a connection is made, in an included file too."""
    (tmp_path / "outer.conf").write_text('x = 1\ninclude "inner.conf"\n')
    (tmp_path / "inner.conf").write_text(f"# a comment\n{statement}\n")
    with pytest.raises(ConfigError, match=r"inner\.conf:2: .*include"):
        read_document(tmp_path / ("outer.conf" if nested else "inner.conf"))
    assert offline == []


def test_includes_are_spliced_in_where_they_stand(tmp_path: Path) -> None:
    """An include is relative to its file; keys after it win over it, keys before it do not; braces are optional."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "top.conf").write_text(
        'a { x = 1, y = 1\n  include "sub/braced"\n  z = 1 }\n'
        'include file("sub/plain")\ninclude "absent"\nb = "include \\"http://x\\""'
    )
    (tmp_path / "sub/braced").write_text('# a { in a comment\n{\n  y = "{2}", z = 2 // }\n}\n# end')
    (tmp_path / "sub/plain").write_text('include required("leaf.conf")\nc = 3')
    (tmp_path / "sub/leaf.conf").write_text("c = 4, d = 512m")
    assert read_document(tmp_path / "top.conf").root == {
        "a": {"x": 1, "y": "{2}", "z": 1},
        "b": 'include "http://x"',
        "c": 3,
        "d": "512m",
    }


def test_an_include_may_leave_out_the_suffix(tmp_path: Path) -> None:
    """``common`` is its ``.conf`` over its ``.json`` over its ``.properties``; with a suffix it is that file alone."""
    (tmp_path / "common.conf").write_text("a.conf = 1, who = conf")
    (tmp_path / "common.json").write_text('{"a": {"json": 1}, "who": "json", "j": "json"}')
    (tmp_path / "common.properties").write_text("# said\na.properties = 1\nj = properties\nwho: properties\n")
    (tmp_path / "top.conf").write_text('x { include "common" }\ny { include "common.json" }')
    assert read_document(tmp_path / "top.conf").root == {
        "x": {"a": {"conf": 1, "json": 1, "properties": "1"}, "who": "conf", "j": "json"},
        "y": {"a": {"json": 1}, "who": "json", "j": "json"},
    }


@pytest.mark.parametrize(
    "text", ['a = include "leaf"', 'a = x include "leaf"', 'a += include "leaf"', 'l = [include "leaf"]']
)
def test_an_include_is_a_statement(text: str, tmp_path: Path) -> None:
    """A local file is not included into the middle of a value either."""
    (tmp_path / "leaf").write_text("c = 4")
    (tmp_path / "top").write_text(text)
    with pytest.raises(ConfigError, match="top:1: .*inside a value"):
        read_document(tmp_path / "top")


def test_includes_that_cannot_be_followed(tmp_path: Path) -> None:
    """A required file that is absent, and a file that includes itself by a detour, are named."""
    (tmp_path / "one").write_text('\ninclude required("gone")')
    (tmp_path / "two").write_text('include "three"')
    (tmp_path / "three").write_text('a = 1\ninclude "two"')
    with pytest.raises(ConfigError, match=r"one:2: .*gone"):
        read_document(tmp_path / "one")
    with pytest.raises(ConfigError, match=r"three:2: .*circular: \S*two"):
        read_document(tmp_path / "two")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a = 1\nb {\n", "given text:3 is not HOCON"),
        ('a = 1\nb c\npassword = "hunter2"', "given text:2 is not HOCON, at or before 'b c'"),
        ('x = 1\npassword = "hunter2" ]', "given text:2 is not HOCON, at or before 'password'"),
        ("[1, 2]", "holds a list"),
        ("a = [1] x", "is not HOCON"),
        (r'x = 1, password = "hunter2\q"', r"given text:1: a quoted string holds the escape \\q, "),
        ('\npassword = "hunter2\\u12"', r"given text:2: .*the escape \\u, "),
        (r'a = 1, password += "hunter2\."', r"given text:1: .*the escape \\\., "),
        (r'password = "hunter2\ud83d"', "half of a surrogate pair"),
        ("a = " + "{b = " * 300 + "1" + "}" * 300, "nests objects or lists too deep"),
        (".".join("a" * 200) + " = 1", "nests objects or lists too deep"),
    ],
)
def test_not_hocon(text: str, message: str) -> None:
    """A syntax error names its line, and never shows a value, which may be a secret."""
    with pytest.raises(ConfigError, match=message) as caught:
        parse_document(text)
    assert "hunter2" not in str(caught.value)


@given(st.lists(fragments, max_size=12).map("".join))
def test_any_text_is_read_or_refused(text: str) -> None:
    """Whatever the text is, the answer is a document or a ConfigError."""
    with contextlib.suppress(ConfigError):
        assert isinstance(parse_document(text), Document)


def test_keys_are_placed(tmp_path: Path) -> None:
    """A key is found by its line however it is spelled, in included files too; never by a guess between two."""
    (tmp_path / "top").write_text(
        'a.b.c = 1\nd { e = 1\n "f.g" : 2 }\ninclude "more"\nh.size = 1\nother.h.size = 1\nk = ${d}\nm."n.o".p = 1\n'
        "q.cache.size = 1\ncache { size.x = 2 }"
    )
    (tmp_path / "more").write_text("\n\nlocation { base = 1 }\n")
    document = read_document(tmp_path / "top")
    places = {
        ("a", "b", "c"): "top:1",
        ("d", "e"): "top:2",
        ("d", "f.g"): "top:3",
        ("location", "base"): "more:3",
        ("h", "size"): "top:5",
        ("k", "e"): "top:7",
        ("m", "n.o", "p"): "top:8",
        ("q", "cache", "size"): "top:9",
    }
    assert {
        key: f"{place.path.name}:{place.line}" if (place := document.place(key)) and place.path else None
        for key in places
    } == places
    assert str(parse_document("a { x = 1 }\nb { x = 1 }").place(("b", "x"))) == "the given text:2"
    assert parse_document("a = 1\na = 2").place(("a",)) is None


def test_mappings_are_documents_too() -> None:
    """Keys of a mapping may be dotted paths; its values stay as they are."""
    assert document_of({"a.b": 0, "c": {"d.e": None, '"f.g"': False}}).root == {
        "a": {"b": 0},
        "c": {"d": {"e": None}, "f.g": False},
    }


def test_files_of_windows_are_read(tmp_path: Path) -> None:
    """With the mark that its editors put in front, in included files too, and with its ends of lines."""
    (tmp_path / "top").write_bytes(b'\xef\xbb\xbfa = 1\r\ninclude "leaf"\r\n')
    (tmp_path / "leaf").write_bytes(b"\xef\xbb\xbf{ b = 2 }\r\n")
    assert read_document(tmp_path / "top").root == {"a": 1, "b": 2}
