"""What a FILE unit records of the state that its file was in, beside the state that a listing finds it in.

Place in the flow: ANALYZE asks it of the files whose units it may keep, pruning of the files that units speak for.
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

    Units of another program may record neither; no file is as these say. Raises FormatError for what is no holder.
    """
    # Our own holders are found as they were written; reading their JSON costs twenty times as much.
    if _LENGTH % size in holders and _TIME % mtime_ns in holders:
        return True
    recorded = read_holders(holders)
    return (recorded.get(Statistic.LENGTH), recorded.get(Statistic.MODIFICATION_TIME_NANOS)) == (size, mtime_ns)
