"""Who knows which procedures there are, and when they are made."""

from __future__ import annotations

import pkgutil
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.procedures_site import Site

import metastore.procedures
from metastore.errors import InvalidRequestError, NotFoundError, ProcedureError
from metastore.procedures import Argument, Procedure, Provider, columns
from metastore.procedures.framework.builtin import GROUP, MODULES, declared_in, register_installed
from metastore.procedures.framework.registry import Registry
from metastore.session import Session


def nothing(context: object) -> dict[str, Any]:
    """Returns one row."""
    return {"x": context is not None}


def made(name: str = "p") -> Procedure:
    """A procedure ``system.<name>``."""
    return Procedure("system", name, function=nothing, result=columns(x=pa.bool_()))


def test_a_provider_is_asked_once_and_late() -> None:
    """Knowing the name makes nothing; what was made serves every catalog and every thread."""
    asked: list[int] = []

    def make() -> Procedure:
        asked.append(1)
        return made()

    registry, provider = Registry(), Provider("system.p", make)
    for catalog in ("a", "b"):
        registry.register(catalog, provider)
    assert registry.names("A") == ["system.p"]
    assert asked == []
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(registry.resolve("a", "SYSTEM.P"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {id(each) for each in found} == {id(registry.resolve("b", "system.p"))}
    assert asked == [1]


def test_a_name_is_taken_once_per_catalog() -> None:
    """In another catalog it is another procedure."""
    registry = Registry()
    registry.register("a", made())
    registry.register("b", made())
    with pytest.raises(InvalidRequestError, match=r"^Procedure already registered: A\.system\.p$"):
        registry.register("A", made())


@pytest.mark.parametrize("name", ["p", "a.b.c", ".p", "system."])
def test_a_provider_has_a_name_of_two_parts(name: str) -> None:
    """Schema and name; the catalog is where it is registered."""
    with pytest.raises(InvalidRequestError, match="does not name a procedure"):
        Registry().register("a", Provider(name, made))


def test_what_is_not_there() -> None:
    """A near name is offered."""
    registry = Registry()
    registry.register("a", made("rollback"))
    with pytest.raises(
        NotFoundError, match=r"^Procedure not registered: a\.system\.rolback; did you mean system\.rollback"
    ):
        registry.resolve("a", "system.rolback")
    with pytest.raises(NotFoundError, match=r"^Procedure not registered: b\.system\.rollback$"):
        registry.resolve("b", "system.rollback")


def broken() -> Procedure:
    """Cannot make its procedure."""
    raise ValueError("no luck")


@pytest.mark.parametrize(
    ("provider", "said"),
    [
        (Provider("system.p", broken), r"procedure system\.p cannot be loaded: ValueError: no luck"),
        (Provider.at("system.p", "metastore.nowhere:p"), r"procedure system\.p cannot be loaded: ModuleNotFoundError"),
        (Provider.at("system.p", "metastore.errors:p"), r"procedure system\.p cannot be loaded: AttributeError"),
        (Provider("system.p", lambda: made("q")), r"the provider of system\.p returned system\.q"),
        (Provider("system.p", dict), r"the provider of system\.p returned \{\}"),  # type: ignore[arg-type] # what is refused
    ],
)
def test_a_provider_that_does_not_provide(provider: Provider, said: str) -> None:
    """It is said when the procedure is needed, and which one it was; the others are not disturbed."""
    registry = Registry()
    registry.register("a", provider)
    registry.register("a", made("fine"))
    with pytest.raises(ProcedureError, match=said):
        registry.resolve("a", "system.p")
    assert registry.resolve("a", "system.fine").name == "fine"


def test_every_built_in_procedure_can_be_made(session: Session) -> None:
    """Under the name that it is listed by, in every catalog, with a description of one line."""
    registry = session.procedures.registry
    assert {each.qualified_name for each in declared_in(MODULES)} <= set(registry.names("metastore"))
    for catalog in registry.catalogs():
        for name in registry.names(catalog):
            description = registry.resolve(catalog, name).description
            assert description, name
            assert "\n" not in description, name


def test_families_are_imported_when_they_are_called(tmp_path: Path) -> None:
    """A session that calls none has loaded no family."""
    conf = tmp_path / "site.conf"
    conf.write_text(f'drill.metastore.iceberg.location.base_path = "{tmp_path}"')
    loaded = _run(f"import sys, metastore\nmetastore.connect({str(conf)!r}).procedures\nprint(sorted(sys.modules))")
    assert "metastore.procedures.refs.cherrypick" not in loaded
    assert "metastore.procedures.framework.builtin" in loaded


def test_no_declaration_is_left_out() -> None:
    """Each module below this package that declares a procedure is one that is registered."""
    found = {
        module.name
        for module in pkgutil.walk_packages(metastore.procedures.__path__, "metastore.procedures.")
        if not module.ispkg and declared_in([module.name])
    }
    assert found == set(MODULES)


def _run(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return done.stdout


def test_entry_points_name_their_catalog_or_none() -> None:
    """Two parts are for every catalog, three for one; one that is not configured here is left out."""
    registry = Registry()
    points = [
        EntryPoint("system.everywhere", f"{__name__}:made", GROUP),
        EntryPoint("lake.system.here", f"{__name__}:made", GROUP),
        EntryPoint("sea.system.there", f"{__name__}:made", GROUP),
    ]
    register_installed(registry, ["metastore", "lake"], points)
    assert registry.names("metastore") == ["system.everywhere"]
    assert registry.names("lake") == ["system.everywhere", "system.here"]
    assert registry.names("sea") == []


@pytest.mark.parametrize("name", ["p", "a.b.c.d", "system.", ".p", "system.ancestors_of", "LAKE.system.ancestors_of"])
def test_an_installed_procedure_with_a_wrong_name_stops_only_itself(
    session: Session, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    """A malformed or taken name is left out and named; the built-in procedure and the other packages' stay."""
    registry = session.procedures.registry
    built_in = registry.resolve("lake", "system.ancestors_of")
    other = EntryPoint("system.fine", f"{__name__}:made", GROUP)
    register_installed(registry, ["LAKE"], [EntryPoint(name, "x:y", GROUP), other])
    assert f"the procedure {name} of the installed package unknown is left out: " in caplog.text
    assert registry.resolve("lake", "system.ancestors_of") is built_in
    assert "system.fine" in registry.names("lake")


def test_a_package_is_named_and_what_cannot_be_loaded_is_listed(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Every other CALL runs beside a package with a taken name and one that fails, and the listing has both."""
    for package, name in (("other-shop", "system.expire_snapshots"), ("broken-shop", "system.broken")):
        info = tmp_path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = no_module_of_this_name:made\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert site.call("rewrite_data_files")[0]["rewritten_data_files_count"] == 0
    assert "the procedure system.expire_snapshots of the installed package other-shop is left out" in caplog.text
    listed = {(row["catalog"], row["name"]): row for row in site.session.procedures.list().to_pylist()}
    assert listed[site.catalog, "broken"]["kind"] == "unusable"
    assert "no_module_of_this_name" in listed[site.catalog, "broken"]["description"]
    assert listed[site.catalog, "expire_snapshots"]["kind"] == "normal"


def test_one_of_ones_own_in_a_session(session: Session, echo: Callable[..., Procedure]) -> None:
    """It is there in the catalog that it was registered for, and an unknown catalog is refused."""
    session.procedures.register("LAKE", echo(Argument("x")))
    assert session.call("lake.system.echo", "hi").to_pylist() == [{"x": "'hi'"}]
    with pytest.raises(NotFoundError, match="catalog sea does not exist"):
        session.procedures.register("sea", echo(Argument("x")))
