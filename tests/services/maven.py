"""Java programs of others for services, from Maven Central, by Maven."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

PLUGIN = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1"


def class_path(pom: Path, output: Path, home: Path, **versions: str) -> str:
    """The class path of what ``pom`` names, downloaded if need be; ``versions`` are its properties.

    ``output`` is a file to use, ``home`` that of Java.
    """
    maven = shutil.which("mvn")
    if maven is None:
        raise RuntimeError("no Maven on this machine, which brings this service: apt-get install maven")
    command = [maven, "-B", "-q", "-f", str(pom), f"{PLUGIN}:build-classpath", f"-Dmdep.outputFile={output}"]
    command += [f"-D{name}.version={version}" for name, version in versions.items()]
    ran = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "JAVA_HOME": str(home)}
    )
    if ran.returncode:
        raise RuntimeError(f"Maven could not bring what {pom} names: {ran.stdout[-2000:]}")
    return output.read_text().strip()
