"""Parses the options of rewrite_data_files and rewrite_position_delete_files, and checks each alone and all together.

Names, defaults and meanings are those of Spark's procedures of the same names, so calls can be reused. An unsupported
option is refused by name and never ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, get_args

from metastore.errors import InvalidRequestError
from metastore.ground.suggestions import nearest
from metastore.lake.writes.limits import (
    MAX_OF_TARGET,
    MIN_OF_TARGET,
    TARGET_DEFAULT,
    TARGET_PROPERTY,
    JobOrder,
    RewriteOptions,
    Strategy,
)

_DELETES_TARGET_PROPERTY: Final = "write.delete.target-file-size-bytes"
_DELETES_TARGET_DEFAULT: Final = 64 << 20


def parse_options(options: Mapping[str, str], properties: Mapping[str, str], strategy: Strategy) -> RewriteOptions:
    """Returns the options of a call on a table with ``properties``.

    Raises InvalidRequestError if an option is unknown, a value is invalid, or values contradict each other.
    """
    known = [name for name in _READERS if strategy == "sort" or name != "compression-factor"]
    values = _values(options, known, f"rewrite_data_files has no option {{}} for strategy {strategy}")
    return _with_sizes(values, properties, TARGET_PROPERTY, TARGET_DEFAULT)


def parse_position_options(options: Mapping[str, str], properties: Mapping[str, str]) -> RewriteOptions:
    """Returns the options of rewrite_position_delete_files on a table with ``properties``; sizes are of delete files.

    Raises InvalidRequestError as :func:`parse_options` does.
    """
    values = _values(options, _POSITION_OPTIONS, "rewrite_position_delete_files has no option {}")
    return _with_sizes(values, properties, _DELETES_TARGET_PROPERTY, _DELETES_TARGET_DEFAULT)


def _values(options: Mapping[str, str], known_names: Collection[str], refusal: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, text in options.items():
        if name not in known_names:
            near = nearest(name, known_names, most=1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(known_names))}"
            raise InvalidRequestError(f"{refusal.format(repr(name))}; {hint}")
        field, read = _READERS[name]
        values[field] = read(name, text)
    return values


def _with_sizes(
    values: dict[str, Any], properties: Mapping[str, str], target_property: str, target_default: int
) -> RewriteOptions:
    if "target_bytes" not in values and (text := properties.get(target_property)):
        values["target_bytes"] = _positive(f"table property {target_property}", text)
    target = values.setdefault("target_bytes", target_default)
    values.setdefault("min_bytes", int(target * MIN_OF_TARGET))
    values.setdefault("max_bytes", int(target * MAX_OF_TARGET))
    values.setdefault("max_failed_commits", values.get("max_commits", RewriteOptions.max_commits))
    _check_sizes(target, values["min_bytes"], values["max_bytes"])
    return RewriteOptions(**values)


def _check_sizes(target: int, low: int, high: int) -> None:
    if target <= low:
        raise InvalidRequestError(
            f"target-file-size-bytes ({target}) must be greater than min-file-size-bytes ({low}): "
            "else every new file is too small at once"
        )
    if target >= high:
        raise InvalidRequestError(
            f"target-file-size-bytes ({target}) must be less than max-file-size-bytes ({high}): "
            "else every new file is too large at once"
        )


def _integer(name: str, text: str, least: int) -> int:
    try:
        value = int(text)
    except ValueError as error:
        raise InvalidRequestError(f"{name} must be a whole number, not {text!r}") from error
    if value < least:
        raise InvalidRequestError(f"{name} must be at least {least}, not {value}")
    return value


def _positive(name: str, text: str) -> int:
    return _integer(name, text, 1)


def _natural(name: str, text: str) -> int:
    return _integer(name, text, 0)


def _boolean(name: str, text: str) -> bool:
    match text.strip().lower():
        case "true":
            return True
        case "false":
            return False
    raise InvalidRequestError(f"{name} must be true or false, not {text!r}")


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError as error:
        raise InvalidRequestError(f"{name} must be a number, not {text!r}") from error
    if not 0 < value < float("inf"):
        raise InvalidRequestError(f"{name} must be greater than 0, not {text}")
    return value


def _ratio(name: str, text: str) -> float:
    value = _number(name, text)
    if value > 1:
        raise InvalidRequestError(f"{name} must be at most 1, not {text}")
    return value


def _order(name: str, text: str) -> str:
    value = text.strip().lower()
    if value not in get_args(JobOrder):
        raise InvalidRequestError(f"{name} must be one of {', '.join(get_args(JobOrder))}, not {text!r}")
    return value


_READERS: Final[Mapping[str, tuple[str, Callable[[str, str], Any]]]] = {
    "target-file-size-bytes": ("target_bytes", _positive),
    "min-file-size-bytes": ("min_bytes", _natural),
    "max-file-size-bytes": ("max_bytes", _positive),
    "min-input-files": ("min_input_files", _positive),
    "rewrite-all": ("rewrite_all", _boolean),
    "max-file-group-size-bytes": ("max_group_bytes", _positive),
    "max-file-group-input-files": ("max_group_files", _positive),
    "delete-file-threshold": ("delete_file_threshold", _positive),
    "delete-ratio-threshold": ("delete_ratio_threshold", _ratio),
    "output-spec-id": ("output_spec_id", _natural),
    "remove-dangling-deletes": ("remove_dangling_deletes", _boolean),
    "max-files-to-rewrite": ("max_files", _positive),
    "max-concurrent-file-group-rewrites": ("max_concurrent_groups", _positive),
    "partial-progress.enabled": ("partial_progress", _boolean),
    "partial-progress.max-commits": ("max_commits", _positive),
    "partial-progress.max-failed-commits": ("max_failed_commits", _natural),
    "use-starting-sequence-number": ("use_starting_sequence_number", _boolean),
    "rewrite-job-order": ("job_order", _order),
    "compression-factor": ("compression_factor", _number),
}

_POSITION_OPTIONS: Final = (
    "target-file-size-bytes",
    "min-file-size-bytes",
    "max-file-size-bytes",
    "min-input-files",
    "rewrite-all",
    "max-file-group-size-bytes",
    "max-file-group-input-files",
    "max-concurrent-file-group-rewrites",
    "partial-progress.enabled",
    "partial-progress.max-commits",
    "partial-progress.max-failed-commits",
    "rewrite-job-order",
)
