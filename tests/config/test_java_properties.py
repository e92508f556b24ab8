"""A file that Drill ships uses system properties of Java; they have here what a Java program would see."""

from __future__ import annotations

import getpass
import os
import tempfile
from pathlib import Path

import pytest

from metastore.config.java_properties import JavaEnvironment
from metastore.config.settings import load_text
from metastore.errors import ConfigError

BASE = "drill.metastore.iceberg.location.base_path"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("${user.home}/m", os.path.expanduser("~/m")),
        ("${user.home}${file.separator}m", os.path.expanduser("~/m")),
        ("${java.io.tmpdir}/m", f"{tempfile.gettempdir()}/m"),
        ("/${user.name}", f"/{getpass.getuser()}"),
        ("${user.dir}/m", "/here/m"),
        ("/${os.name}", "/" + {"Darwin": "Mac OS X"}.get(os.uname().sysname, os.uname().sysname)),
        ("${java.home}/m", "/jdk/m"),
        ("${HOME_OF_ALL}/m", "/all/m"),
        ("/x${?user.nickname}", "/x"),
    ],
)
def test_a_property_has_its_value(text: str, expected: str) -> None:
    """Within a text; a variable of the environment as before, and an optional one that is not known is nothing."""
    unquoted = text.replace("/", '"/"')
    settings = load_text(
        f"{BASE} = {unquoted}", environ={"JAVA_HOME": "/jdk", "HOME_OF_ALL": "/all"}, cwd=Path("/here")
    )
    assert settings.iceberg.base_path == expected


def test_a_key_wins_over_a_property() -> None:
    """What the files say is what was meant."""
    assert load_text(f"user.home = /own\n{BASE} = ${{user.home}}", environ={}).iceberg.base_path == "/own"


def test_a_property_of_a_running_java_is_not_known() -> None:
    """There is none; java.home neither, without JAVA_HOME."""
    for name in ("java.version", "java.home"):
        with pytest.raises(ConfigError, match="nor a system property of Java"):
            load_text(f"{BASE} = ${{{name}}}", environ={})


def test_all_can_be_listed() -> None:
    """Each name has a text."""
    found = JavaEnvironment({"A": "b", "JAVA_HOME": "/jdk"}, lambda: "/here")
    assert {"A", "user.dir", "java.home", "line.separator", "file.encoding"} <= set(found)
    assert all(isinstance(found[name], str) for name in found)
    assert len(found) == len(list(found))
