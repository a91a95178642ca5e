"""The hour that a wall clock shows twice when summer time ends, told apart by the order of a writer's lines."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from functools import lru_cache

from correlator.timestamps import SECOND

#: Lines of threads that overtake each other go back by seconds; that is no change of the clock.
_OVERTAKING_NS = 60 * SECOND
_QUARTER_NS = 900 * SECOND


@lru_cache(maxsize=4096)
def _repeats_after_ns(zone: tzinfo, quarter: int) -> int:
    """How much later the wall clock shows this quarter of an hour (counted from 1970, UTC) again; 0 if it does not."""
    local = datetime.fromtimestamp(quarter * 900, UTC).astimezone(zone)
    if local.fold:
        return 0
    first, second = local.utcoffset(), local.replace(fold=1).utcoffset()
    return int((first - second).total_seconds()) * SECOND if first is not None and second is not None else 0


class RepeatedHour:
    """Places stamps that state no offset: one that goes back although its hour comes twice is of the second time.

    Stamps come in the order of each writer's lines, as UTC nanoseconds of the first of the two hours, which is how
    ``Clock`` reads them. Where no line of the first hour was seen, nothing tells the two apart and the first is kept.
    """

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._latest: dict[str, int] = {}
        self._second: set[str] = set()

    def placed(self, writer: str, ns: int) -> int:
        """The time of the writer's next line."""
        if self._zone is UTC:
            return ns
        latest = self._latest.get(writer, ns)
        later = max(_repeats_after_ns(self._zone, ns // _QUARTER_NS), 0)
        if later and (writer in self._second or ns + _OVERTAKING_NS < latest <= ns + later + _OVERTAKING_NS):
            self._second.add(writer)
            ns += later
        elif not later:
            self._second.discard(writer)
        self._latest[writer] = max(latest, ns)
        return ns
