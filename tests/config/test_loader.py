"""Tiers are found where they should be, the later one wins, and every value knows where it came from."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from metastore.config import load
from metastore.config.loader import Configuration, find_tiers
from metastore.errors import ConfigError

WriteConf = Callable[..., Path]
KEY = ("drill", "metastore", "iceberg", "location", "relative_path")
DOTTED = ".".join(KEY)
METASTORE_TIERS = ("module", "distrib", "override")


def configuration(conf: Path | str | None, cwd: Path, environ: dict[str, str] | None = None) -> Configuration:
    """The merged configuration that the search order leads to."""
    environ = environ or {}
    return Configuration(find_tiers(conf, environ, cwd)[0], environ)


@given(
    st.dictionaries(
        st.sampled_from(METASTORE_TIERS), st.sampled_from([False, True, 0, 7, "", "x", None, 0.5]), min_size=1
    )
)
@hypothesis_settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_latest_tier_wins(write_conf: WriteConf, values: dict[str, object]) -> None:
    """Of module, distrib and override the last one that sets the key wins with any scalar, and is its origin."""
    texts = {tier: f"{DOTTED} = {json.dumps(values[tier])}" if tier in values else "" for tier in METASTORE_TIERS}
    directory = write_conf(**texts)
    merged = configuration(directory, directory)
    winner = [tier for tier in METASTORE_TIERS if tier in values][-1]
    assert (merged.get(KEY), merged.origin(KEY).tier) == (values[winner], winner)
    assert merged.origin(KEY).path == directory / f"drill-metastore-{winner}.conf"


def test_the_search_order(write_conf: WriteConf, tmp_path: Path) -> None:
    """The path given goes before $METASTORE_CONF_DIR, that before conf/ here, and that before nothing at all."""
    given_dir = write_conf(override=f"{DOTTED} = given")
    for name in ("environ", "here/conf"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "drill-metastore-override.conf").write_text(f"{DOTTED} = {name[:4]}")
    environ = {"METASTORE_CONF_DIR": str(tmp_path / "environ")}
    here = tmp_path / "here"
    assert configuration(given_dir, here, environ).get(KEY) == "given"
    assert configuration(None, here, environ).get(KEY) == "envi"
    assert configuration(None, here).get(KEY) == "here"
    assert configuration(None, here, {"METASTORE_CONF_DIR": ""}).get(KEY) == "here"
    assert configuration(None, tmp_path).get(KEY) == "drill/metastore/iceberg"
    assert configuration("conf", here).get(KEY) == "here"


def test_one_file_is_the_override(write_conf: WriteConf) -> None:
    """A file of any name counts as the override; of the files beside it only Drill's main configuration is read."""
    directory = write_conf({"mine.conf": ""}, main="drill.exec.zk.root = main", distrib=f"{DOTTED} = distrib")
    merged = configuration(directory / "mine.conf", directory)
    assert merged.get(KEY) == "main/metastore/iceberg"
    assert merged.sources.endswith(f"override: {directory / 'mine.conf'}")


def test_substitutions_cross_tiers(write_conf: WriteConf) -> None:
    """A lower tier sees what a higher one says about drill.exec.zk.root, wherever it is defined."""
    module = 'drill.metastore.iceberg.location.relative_path = ${drill.exec.zk.root}"/m"'
    main = 'drill.exec: { zk.root: "cluster", foreign: ${set.in.a.jar} }'
    assert configuration(write_conf(main=main, module=module), Path("/")).get(KEY) == "cluster/m"
    directory = write_conf(override="drill.exec.zk.root = site")
    assert configuration(directory, Path("/")).get(KEY) == "site/m"


def test_what_is_asked_for_must_exist(write_conf: WriteConf, tmp_path: Path) -> None:
    """A missing path, by option or by variable, and a directory without configuration name every place tried."""
    with pytest.raises(ConfigError, match=f"'gone' does not exist.*{tmp_path}/gone"):
        configuration("gone", tmp_path)
    with pytest.raises(ConfigError, match=r"\$METASTORE_CONF_DIR '/no/where' does not exist"):
        configuration(None, tmp_path, {"METASTORE_CONF_DIR": "/no/where"})
    directory = write_conf()
    with pytest.raises(ConfigError, match="holds no configuration") as caught:
        configuration(directory, tmp_path)
    for name in ("drill-override.conf", *(f"drill-metastore-{tier}.conf" for tier in METASTORE_TIERS)):
        assert str(directory / name) in str(caught.value)


def test_what_has_the_name_of_a_file_and_is_none(write_conf: WriteConf, tmp_path: Path) -> None:
    """A directory, as containers make of a file that was not there to be mounted, or a link to nothing."""
    directory = write_conf(module="drill.metastore.iceberg.location.base_path = data")
    override = directory / "drill-metastore-override.conf"
    override.mkdir()
    with pytest.raises(ConfigError, match="drill-metastore-override.conf is a directory"):
        configuration(directory, tmp_path)
    override.rmdir()
    override.symlink_to("gone.conf")
    with pytest.raises(
        ConfigError, match="drill-metastore-override.conf is a symbolic link whose target does not exist"
    ):
        configuration(directory, tmp_path)
    override.unlink()
    write_conf(override='include "more.conf"')
    (directory / "more.conf").mkdir()
    with pytest.raises(ConfigError, match="more.conf is a directory"):
        configuration(directory, tmp_path)


def test_places_that_may_not_be_looked_at(write_conf: WriteConf, tmp_path: Path) -> None:
    """As in a folder of somebody else's; a name that is too long stands for it, which is one for every user."""
    name = "x" * 300
    for asked, environ in ((name, {}), (None, {"METASTORE_CONF_DIR": name})):
        with pytest.raises(ConfigError, match=f"the configuration file {tmp_path}/x+.* cannot be looked up: "):
            configuration(asked, tmp_path, environ)
    directory = write_conf(override=f'include "{name}"')
    with pytest.raises(ConfigError, match="x+ cannot be looked up: "):
        configuration(directory, tmp_path)


def test_places_that_cannot_be_found(write_conf: WriteConf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of nobody; a working directory that is gone, which only a relative path needs."""
    with pytest.raises(ConfigError, match="'~nosuchuser/x' begins with a home directory that cannot be found"):
        configuration("~nosuchuser/x", tmp_path)
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    directory = write_conf(override='drill.metastore.iceberg.location.base_path = "/srv/drill"')
    environ = {"METASTORE_CONF_DIR": str(directory)}
    assert load(environ=environ).iceberg.base_path == "/srv/drill"
    with pytest.raises(ConfigError, match="'site' is relative, and the working directory cannot be found"):
        load("site", environ=environ)
    write_conf(override="drill.metastore.iceberg.location.base_path = data")
    with pytest.raises(ConfigError, match="'data' is relative"):
        load(environ=environ)


def test_a_file_that_is_no_text_is_named(write_conf: WriteConf) -> None:
    """A configuration that is not UTF-8 is a ConfigError with its path."""
    path = write_conf() / "drill-metastore-override.conf"
    path.write_bytes(b"a = \xff\xfe")
    with pytest.raises(ConfigError, match=str(path)):
        configuration(path, path.parent)


def test_origins(write_conf: WriteConf) -> None:
    """An origin is the tier and line that decided; ${?name} without a value decides nothing; includes are followed."""
    directory = write_conf(
        {"more.conf": "\ncache.size = 1"},
        distrib="drill.metastore {\n engine.kind = local\n}",
        override='drill.metastore.engine.kind = ${?KIND}\ndrill.metastore.iceberg { include "more.conf" }',
    )
    kind, size = ("drill", "metastore", "engine", "kind"), ("drill", "metastore", "iceberg", "cache", "size")
    merged = configuration(directory, directory)
    assert str(merged.origin(kind)) == f"distrib: {directory}/drill-metastore-distrib.conf:2"
    assert str(merged.origin(size)) == f"override: {directory}/more.conf:2"
    assert str(merged.origin(KEY)) == "default"
    by_environment = configuration(directory, directory, {"KIND": "spark"})
    assert str(by_environment.origin(kind)) == f"override: {directory}/drill-metastore-override.conf:1"
    assert by_environment.get(kind) == "spark"
