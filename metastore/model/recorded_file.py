"""Compares the file state that a FILE unit records with the state in a listing.

Place in the flow: ANALYZE checks files whose units it may keep; pruning checks files whose units it uses.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from metastore.model.statistics_json import holder_pattern, read_holders
from metastore.model.vocabulary import Statistic

_LENGTH: Final = holder_pattern(Statistic.LENGTH)
_TIME: Final = holder_pattern(Statistic.MODIFICATION_TIME_NANOS)


def is_as_recorded(size: int, mtime_ns: int, holders: Sequence[str]) -> bool:
    """Whether a file of ``size`` bytes, modified at ``mtime_ns``, is the one whose unit has the statistics ``holders``.

    Returns False for units of another program that record neither. Raises FormatError for an invalid holder.
    """
    # Our own holders are compared as text; decoding their JSON costs twenty times as much.
    if _LENGTH % size in holders and _TIME % mtime_ns in holders:
        return True
    recorded = read_holders(holders)
    return (recorded.get(Statistic.LENGTH), recorded.get(Statistic.MODIFICATION_TIME_NANOS)) == (size, mtime_ns)
