"""The demo on S3 finds its own claims true, and its server counts every request and never outlives it."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from urllib.error import URLError
from urllib.request import urlopen

import pytest
from obstore.exceptions import AlreadyExistsError

import metastore
from demos.s3 import __main__ as demo
from demos.s3.process import s3_server

ROOT = Path(metastore.__file__).parents[1]


@contextmanager
def started(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    """Python with these arguments, its streams as pipes; it does not outlive the block."""
    command, pipe = [sys.executable, *arguments], subprocess.PIPE
    with subprocess.Popen(command, cwd=ROOT, text=True, stdin=pipe, stdout=pipe, stderr=pipe) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.mark.integration
def test_the_demo_runs_and_ctrl_c_ends_its_server(tmp_path: Path) -> None:
    """On two of the twelve months: every claim holds, one file is written, and nothing listens after Ctrl-C."""
    options = ["--folder", str(tmp_path / "new"), "--months", "6,7", "--latency", "0", "--stay"]
    with started("-m", "demos.s3", *options) as process:
        assert process.stdout is not None
        shown = ""
        for line in process.stdout:
            shown += line
            if "stays until Ctrl-C" in line:
                break
        assert "13 claims checked, all true" in shown, shown[-4000:]
        assert "✗" not in shown
        assert "describe lake.demo.flights" in " ".join(shown.split())
        endpoint = shown.partition("runs at ")[2].partition(". ")[0]
        urlopen(f"{endpoint}/flights-lake").close()  # noqa: S310 - loopback
        process.send_signal(signal.SIGINT)
        left, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
    assert errors == ""
    assert "The S3 server has ended" in left
    with pytest.raises(URLError):
        urlopen(f"{endpoint}/flights-lake")  # noqa: S310 - loopback
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["demo-s3.conf"]


@pytest.mark.integration
def test_the_server_ends_with_its_standard_input() -> None:
    """So it ends with its parent, however that one ends: the system closes the pipe."""
    with started("-m", "demos.s3.server") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        urlopen(f"http://127.0.0.1:{int(process.stdout.readline())}/").close()
        process.stdin.close()
        assert process.wait(60) == 0


@pytest.mark.integration
def test_the_server_counts_delays_and_refuses_a_second_put() -> None:
    """Each request once, by its operation; the log begins anew; a latency is added to what comes after it."""
    with s3_server() as server:
        bucket = server.create_bucket("lake")
        assert server.cost().operations == {"PUT": 1}
        bucket.put("a/b", b"ten bytes!", mode="create")
        with pytest.raises(AlreadyExistsError):
            bucket.put("a/b", b"", mode="create")
        assert server.cost().operations == {"PUT": 2}
        bucket.head("a/b")
        assert bytes(bucket.get_range("a/b", start=2, end=6)) == b"n by"
        cost = server.cost()
        assert (cost.operations, cost.bytes, cost.in_a_row) == ({"HEAD": 1, "GET": 1}, 4, 2)
        list(bucket.list("a"))
        assert server.cost().operations == {"LIST": 1}
        assert server.cost().requests == 0
        server.add_latency(0.2)
        began = perf_counter()
        bucket.head("a/b")
        assert perf_counter() - began >= 0.2


@pytest.mark.integration
def test_of_many_writers_of_one_name_one_wins() -> None:
    """A commit relies on it: the server checks and stores in one step, however many ask at once."""

    def create(key: str) -> bool:
        try:
            bucket.put(key, b"", mode="create")
        except AlreadyExistsError:
            return False
        return True

    with s3_server() as server, ThreadPoolExecutor(16) as threads:
        bucket = server.create_bucket("lake")
        assert [sum(threads.map(create, [f"v{version}"] * 16)) for version in range(10)] == [1] * 10


def test_without_moto_the_extra_is_named() -> None:
    """One line, with the command that installs it."""
    blocked = "import sys; sys.modules['moto'] = None; from demos.s3.__main__ import main; sys.exit(main([]))"
    with started("-c", blocked) as process:
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert errors == "error: the demo's S3 server is not installed: pip install 'lake-metastore[demo-s3]'\n"


@pytest.mark.parametrize("latency", ["-1", "10001", "nan", "fast"])
def test_what_is_no_latency_is_refused(latency: str, capsys: pytest.CaptureFixture[str]) -> None:
    """In one line that names the option."""
    with pytest.raises(SystemExit):
        demo.main([f"--latency={latency}"])
    assert "--latency" in capsys.readouterr().err
