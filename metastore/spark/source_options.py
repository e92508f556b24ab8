"""The options of Spark's data source ``metastore``: what a read asks for, and what a write replaces.

Spark starts Python processes only to learn the name of the source, or to create it. So this module loads no readers and
no writers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from pydantic import TypeAdapter, ValidationError

from metastore.config import Settings, load
from metastore.config.policies import PolicySettings
from metastore.errors import InvalidRequestError
from metastore.procedures.framework.types import parse_timestamp
from metastore.spark.session_keys import with_keys_of_session

REPLACE_WHERE: Final = "replaceWhere"
"""Option: which rows mode ``overwrite`` replaces; every new row must be one of them."""

BRANCH: Final = "branch"
"""Option: the branch of the table that gets the rows. One that does not exist begins at the current snapshot.

Iceberg's own writer for Spark 4.1 has the same option, with the same effect.
"""

OVERWRITE_MODE: Final = "partitionOverwriteMode"
"""Option: what mode ``overwrite`` replaces.

``static`` (the default): all rows; ``dynamic``: the partitions that have new rows.
"""

_MODES: Final = ("static", "dynamic")

ANALYZE: Final = "analyze"
"""Option: whether ANALYZE brings the table's metadata up to date after the write."""

PARTITION_BY: Final = "partitionBy"
"""Option: the columns of the directories, separated by commas. By default those that the folder has."""

FORMAT: Final = "metastore"
"""What Spark calls the source."""

SETTINGS: Final = "settings-token"
"""Option: the settings themselves, for a caller that holds them in memory.

Spark hides values whose key contains "token".
"""

_OPTIONS: Final = ("path", "conf", "version", "asOf", "columns", "where", "rowId", "pushFilters", SETTINGS)
_FLAGS: Final = {"true": True, "false": False}


_JSON: Final = TypeAdapter(Settings)


def settings_option(settings: Settings) -> str:
    """Returns the value of the option :data:`SETTINGS`: the part of ``settings`` that a read needs, as JSON.

    A user who may only write SQL can set options. So this option must not permit more than ``conf`` does.
    """
    return _JSON.dump_json(replace(settings, policies=PolicySettings(), effective=(), warnings=())).decode()


def _given_settings(option: str) -> Settings:
    try:
        return _JSON.validate_json(option)
    except ValidationError as error:
        raise InvalidRequestError(f"the option {SETTINGS} holds no settings; name a configuration by conf") from error


@dataclass(frozen=True)
class SourceRequest:
    """The parsed options: rows of the table called ``name``, at ``version`` or ``time``.

    Without both, they are of the newest version.
    """

    settings: Settings
    name: str
    version: int | None
    time: datetime | None
    columns: tuple[str, ...] | None
    where: str | None
    row_id: bool
    push_filters: bool

    @classmethod
    def of(cls, options: Mapping[str, str], keys: Mapping[str, str] | None = None) -> SourceRequest:
        """Parse the options; ``keys`` are those of object stores in Spark's configuration.

        Raises InvalidRequestError for an option that is unknown or wrong, ConfigError for a bad configuration.
        """
        given = known_options(options, _OPTIONS)
        if not given.get("path"):
            raise InvalidRequestError(
                'name a table: load("information_schema.tables"), load("dfs.tmp.nation"). CREATE TABLE … USING '
                "metastore OPTIONS (path 'dfs.tmp.nation') must not list columns"
            )
        version, time = given.get("version"), given.get("asof")
        if version is not None and (time is not None or not version.isdecimal()):
            raise InvalidRequestError(
                f"the option version is the id of a version, not {version!r}, and cannot be combined with asOf"
            )
        columns = given.get("columns")
        return cls(
            settings_of(given, keys or {}),
            given["path"],
            None if version is None else int(version),
            None if time is None else parse_timestamp(time, zone=None),
            None if columns is None else tuple(name.strip() for name in columns.split(",")),
            given.get("where"),
            flag(given, "rowid"),
            flag(given, "pushfilters"),
        )


def known_options(options: Mapping[str, str], known: Sequence[str]) -> dict[str, str]:
    """Returns ``options`` with keys in lower case. Raises InvalidRequestError for one that is not ``known``."""
    given = {key.lower(): value for key, value in options.items()}
    if unknown := sorted(given.keys() - {name.lower() for name in known}):
        named = ", ".join(name for name in known if name != SETTINGS)
        raise InvalidRequestError(f"unknown option {', '.join(unknown)}; there are {named}")
    return given


def settings_of(options: Mapping[str, str], keys: Mapping[str, str]) -> Settings:
    """Returns the settings that options name, with ``keys`` of object stores. Raises ConfigError.

    The processes in which Spark plans and commits have no session: they do all work themselves, whatever is configured.
    """
    settings = _given_settings(options[SETTINGS]) if SETTINGS in options else load(options.get("conf"))
    here = replace(settings.engine, kind="local", sql="duckdb")
    return with_keys_of_session(replace(settings, engine=here), keys)


def flag(options: Mapping[str, str], name: str) -> bool:
    """Returns whether the option ``name`` is true; by default it is false. Raises InvalidRequestError for others."""
    value = options.get(name, "false").lower()
    if value not in _FLAGS:
        raise InvalidRequestError(f"the option {name} is true or false, not {value!r}")
    return _FLAGS[value]


def overwrite_mode(options: Mapping[str, str], *, overwrite: bool) -> str | None:
    """Returns what a write replaces, by its options in lower case; None to append.

    Raises InvalidRequestError for an unknown value, for an option that an append does not have, and for two options
    that both say what is replaced.
    """
    value = options.get(OVERWRITE_MODE.lower())
    if REPLACE_WHERE.lower() in options and (not overwrite or value is not None):
        raise InvalidRequestError(f"the option {REPLACE_WHERE} is for mode overwrite, without {OVERWRITE_MODE}")
    if value is not None and (not overwrite or value.lower() not in _MODES):
        raise InvalidRequestError(
            f"the option {OVERWRITE_MODE} is {' or '.join(_MODES)}, for mode overwrite; it is {value!r}"
        )
    return (value or _MODES[0]).lower() if overwrite else None
