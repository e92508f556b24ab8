"""The check: each kind of damage and doubt is found by name, with a next step, and a sound deployment has none."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.integrity_site import Site

from metastore.components.catalogs import Catalogs
from metastore.components.integrity.check import check_metastore
from metastore.components.integrity.findings import Finding, some
from metastore.components.metastore import Metastore
from metastore.errors import StorageError
from metastore.ground.clock import Clock

Damage = Callable[[Any], object]


def one(folder: Path, pattern: str) -> Path:
    """The newest file of that pattern."""
    return max(folder.glob(pattern), key=lambda path: path.stat().st_mtime_ns)


def cut(path: Path) -> None:
    """Take the last byte away."""
    path.write_bytes(path.read_bytes()[:-1])


DAMAGES: dict[str, tuple[Damage, str, str]] = {
    "newest version file": (lambda s: (s.metadata / "v4.metadata.json").unlink(), "newer ones are lost", "repair"),
    "version in the middle": (
        lambda s: ((s.metadata / "v3.metadata.json").unlink(), (s.metadata / "version-hint.text").write_text("2")),
        "version 3 of the table is missing",
        "repair",
    ),
    "all version files": (
        lambda s: [path.unlink() for path in s.metadata.glob("v*.metadata.json")],
        "there is no version file",
        "repair",
    ),
    "damaged version file": (lambda s: (s.metadata / "v4.metadata.json").write_text("{}"), "v4.metadata.json", "check"),
    "manifest list": (lambda s: one(s.metadata, "snap-*.avro").unlink(), "manifest list .* it is missing", "backup"),
    "cut manifest": (lambda s: cut(one(s.metadata, "*-m0.avro")), "manifest .* bytes, and .* were written", "backup"),
    "data file": (lambda s: one(s.component, "dfs/**/*.parquet").unlink(), "data file .* missing", "drop-metadata"),
    "cut data file": (lambda s: cut(one(s.component, "dfs/**/*.parquet")), "data file .* were written", "backup"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_each_damage_is_found(site: Site, damage: str) -> None:
    """An error that names the component, what is wrong and the next step; the check changes nothing."""
    make, what, step = DAMAGES[damage]
    make(site)
    before = site.contents()
    with site.session() as ms:
        report = ms.check()
    assert report.errors > 0
    for finding in report.findings:
        assert (finding.severity, finding.subject) == ("error", "tables")
        assert step in finding.next_step
    assert any(what.split(" .* ")[0] in finding.what for finding in report.findings)
    assert site.contents() == before


def test_a_sound_metastore(site: Site) -> None:
    """Nothing is found; every file of every version counts once, and none beside."""
    with site.session() as ms:
        report = ms.check()
    assert report.findings == ()
    [tables] = [each for each in report.components if each.name == "tables"]
    reached = {p for p in site.component.rglob("*") if p.suffix in (".avro", ".parquet")}
    assert (tables.versions, tables.files) == (3, len(reached))
    assert tables.bytes == sum(path.stat().st_size for path in reached)
    assert tables.version in site.known


def test_nothing_written_yet(tmp_path: Path, make_site: Callable[..., Site]) -> None:
    """A metastore that nobody has written to is in order."""
    site = make_site(tmp_path)
    shutil.rmtree(tmp_path / "m")
    with site.session() as ms:
        report = ms.check()
    assert report.findings == ()
    assert [each.version for each in report.components] == [0, 0, 0, 0]


@pytest.mark.parametrize("hint", [None, "2", "three"])
def test_a_hint_that_lags_is_a_note(site: Site, hint: str | None) -> None:
    """A crash after a commit leaves it so: it is told, and is no error."""
    path = site.metadata / "version-hint.text"
    path.unlink() if hint is None else path.write_text(hint)
    with site.session() as ms:
        [finding] = ms.check().findings
    assert (finding.severity, "version-hint.text" in finding.what) == ("note", True)


def test_an_old_version_that_lost_a_file(site: Site) -> None:
    """The current one is whole: the way on is to let the old ones expire."""
    first = min(site.metadata.glob("snap-*.avro"), key=lambda path: path.stat().st_mtime_ns)
    first.unlink()
    with site.session() as ms:
        [finding] = ms.check().findings
    assert "metastore expire" in finding.next_step
    assert str(first) in finding.what


def test_properties_without_effect_and_unknown_keys(tmp_path: Path, make_site: Callable[..., Site]) -> None:
    """What the configuration warns about, beside what is nested in it; each by its key."""
    site = make_site(
        tmp_path,
        **{
            "drill.metastore.iceberg.components.common.properties": {'"write.format.default"': "orc"},
            "drill.metastore.iceberg.cach.size": "1 MB",
        },
    )
    with site.session() as ms:
        found = ms.check()
    assert found.errors == 0
    told = [finding.what for finding in found.findings if finding.subject == "configuration"]
    assert any("write.format.default" in each for each in told)
    assert any("cach.size" in each for each in told)


def test_an_expiration_that_is_overdue(site: Site) -> None:
    """By twice its period; before that it is not."""
    site.keys = {"drill.metastore.iceberg.expiration.period": {"days": 1}}
    for days, overdue in ((1.5, False), (2.5, True)):
        now_ms = Clock().now_ms() + int(days * 86_400_000)
        clock = Clock(now_ms=partial(int, now_ms))
        with Metastore.open(site.settings, clock=clock) as metastore:
            report = check_metastore(Catalogs(metastore), metastore.clock.now_ms())
        assert [finding.next_step for finding in report.findings] == (["metastore expire"] if overdue else [])


def test_catalogs_that_do_not_answer(
    tmp_path: Path, make_site: Callable[..., Site], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One fails, one never answers, one is well: each is asked at the same time, and given up by the limit."""
    lakes = {name: {"type": "sql", "uri": f"sqlite:///{tmp_path}/{name}.db"} for name in ("fails", "hangs", "well")}
    site = make_site(tmp_path, **{"drill.metastore.catalogs": lakes})
    release = threading.Event()

    def schemas(_: Catalogs, name: str) -> list[str]:
        if name == "hangs":
            release.wait(60)
        if name == "fails":
            raise StorageError("the lake does not answer: connection refused")
        return []

    monkeypatch.setattr(Catalogs, "schemas", schemas)
    try:
        with site.session() as ms:
            report = ms.check(timedelta(seconds=0.2))
    finally:
        release.set()
    found = {finding.subject: finding.what for finding in report.findings}
    assert found == {
        "catalog fails": "the lake does not answer: connection refused",
        "catalog hangs": "it did not answer within 0.2 s",
    }


def test_further_checks_are_handed_in(site: Site) -> None:
    """What other parts know of a configuration, such as policies that match no table."""
    finding = Finding("warning", "policies", 'tables."lake.a.b" matches no table', "correct the name")
    with Metastore.open(site.settings) as metastore:
        report = check_metastore(Catalogs(metastore), metastore.clock.now_ms(), more=[lambda _: [finding]])
    assert report.findings == (finding,)


@pytest.mark.parametrize(("count", "most", "listed"), [(0, 3, 0), (3, 3, 3), (4, 3, 3), (100, 3, 3)])
def test_many_of_a_kind(count: int, most: int, listed: int) -> None:
    """The last one says how many more there are."""
    found = some((Finding("error", "tables", str(number), "step") for number in range(count)), most)
    assert len(found) == listed
    if count > most:
        assert found[-1].what == f"{count - most + 1} more of this kind"
