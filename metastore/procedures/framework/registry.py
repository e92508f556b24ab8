"""The registry of procedures by catalog. A provider makes each procedure when it is first needed; it is then kept.

Place in the flow: ``calls`` registers the built-in procedures and those of installed packages, and resolves names here.
Promises: listing the procedures of an installed package imports nothing of it; a name is registered once per catalog;
the registry is safe for concurrent threads.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from metastore.errors import InvalidRequestError, MetastoreError, NotFoundError, ProcedureError
from metastore.ground.suggestions import did_you_mean
from metastore.procedures.framework.model import BaseProcedure


@dataclass(frozen=True)
class Provider:
    """Makes one procedure on request. ``name`` is its qualified name in lower case: ``system.expire_snapshots``."""

    name: str
    make: Callable[[], BaseProcedure]

    @classmethod
    def at(cls, name: str, place: str) -> Provider:
        """Returns a provider that imports the module and calls the function ``module:function`` on request."""
        module, _, function = place.partition(":")

        def make() -> BaseProcedure:
            made: BaseProcedure = getattr(import_module(module), function)()
            return made

        return cls(name, make)

    @classmethod
    def of(cls, procedure: BaseProcedure) -> Provider:
        """Returns a provider of ``procedure`` itself."""
        return cls(procedure.qualified_name, lambda: procedure)


class Registry:
    """Providers by catalog and name. Catalogs and names are found regardless of case."""

    def __init__(self) -> None:
        self._providers: dict[str, dict[str, Provider]] = {}
        self._spelled: dict[str, str] = {}
        self._made: dict[Provider, BaseProcedure] = {}
        self._lock = threading.RLock()

    def register(self, catalog: str, provider: Provider | BaseProcedure) -> None:
        """Add one procedure to ``catalog``. Raises InvalidRequestError if its name is malformed or already taken."""
        given = Provider.of(provider) if isinstance(provider, BaseProcedure) else provider
        name = given.name.lower()
        if name.count(".") != 1 or not all(name.split(".")):
            raise InvalidRequestError(f"{given.name!r} does not name a procedure: schema.name is expected")
        with self._lock:
            known = self._providers.setdefault(catalog.lower(), {})
            self._spelled.setdefault(catalog.lower(), catalog)
            if name in known:
                raise InvalidRequestError(f"Procedure already registered: {catalog}.{name}")
            known[name] = given

    def catalogs(self) -> list[str]:
        """Returns the catalogs that have procedures, in the order and spelling of their registration."""
        return [self._spelled[catalog] for catalog in self._providers]

    def catalog(self, name: str) -> str | None:
        """Returns the registered spelling of the catalog; None if it has no procedures."""
        return self._spelled[name.lower()] if name.lower() in self._providers else None

    def names(self, catalog: str) -> list[str]:
        """Returns the qualified names of the procedures of ``catalog``, sorted. Makes none of the procedures."""
        return sorted(self._providers.get(catalog.lower(), ()))

    def resolve(self, catalog: str, name: str) -> BaseProcedure:
        """Returns the procedure ``schema.name`` of ``catalog``, made on first use.

        Raises NotFoundError, which suggests similar names, and ProcedureError if the provider fails.
        """
        known = self._providers.get(catalog.lower(), {})
        provider = known.get(name.lower())
        if provider is None:
            raise NotFoundError(f"Procedure not registered: {catalog}.{name}{did_you_mean(name, known)}")
        with self._lock:
            if provider not in self._made:
                self._made[provider] = _make_procedure(provider)
            return self._made[provider]


def _make_procedure(provider: Provider) -> BaseProcedure:
    try:
        made: object = provider.make()
    except MetastoreError:
        raise
    except Exception as error:
        raise ProcedureError(f"procedure {provider.name} cannot be loaded: {type(error).__name__}: {error}") from error
    if isinstance(made, BaseProcedure) and made.qualified_name == provider.name.lower():
        return made
    what = made.qualified_name if isinstance(made, BaseProcedure) else repr(made)
    raise ProcedureError(f"the provider of {provider.name} returned {what}")
