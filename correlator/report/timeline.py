"""The cascade as a few waves: equal occurrences close in time are one line with their ranks together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime

from correlator.diagnosis import CascadeEvent, Role

#: Equal occurrences closer than this belong to one wave: time-outs of one stall spread over a few seconds, because the
#: watchdogs of the ranks poll.
_SAME_WAVE_S = 30.0

#: An effect may seem this much earlier than its cause: stamps have whole seconds, and launchers poll.
_STAMP_ERROR_S = 5.0

#: More waves than this are not read: neither as rows of a page nor as boxes of its picture.
WAVES_SHOWN = 16

#: What a reader calls a role.
ROLE_WORDS: dict[Role, str] = {
    "initiator": "failed first",
    "collateral": "suffered",
    "teardown": "stopped",
    "unrelated": "unrelated",
}
ROLE_ORDER: dict[Role, int] = {"initiator": 0, "collateral": 1, "teardown": 2, "unrelated": 3}
_DIGITS = re.compile(r"[0-9a-f]*\d[0-9a-f]*", re.IGNORECASE)


@dataclass
class Wave:
    """Equal occurrences: who took part, from when to when, and the entries it stands for, earliest first."""

    role: Role
    what: str
    time: datetime | None
    last_time: datetime | None
    #: The printed time lies before that of a cause, so a clock or a stamp is wrong.
    against_order: bool = False
    ranks: set[int] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)
    entries: list[CascadeEvent] = field(default_factory=list)

    def add(self, entry: CascadeEvent) -> None:
        """Takes one more entry in."""
        self.ranks.update(entry.ranks)
        self.nodes.update(entry.nodes)
        self.entries.append(entry)
        self.time = self.time or entry.time
        self.last_time = entry.time or self.last_time


def build_waves(cascade: Sequence[CascadeEvent]) -> list[Wave]:
    """The waves of a cascade in causal order: by time, but no effect before its causes."""
    by_id = {entry.id: entry for entry in cascade}
    waves: list[Wave] = []
    latest: dict[tuple[Role, str], Wave] = {}
    for entry in _in_order(cascade):
        key = (entry.role, _DIGITS.sub("#", entry.what))
        wave = latest.get(key)
        if wave is None or (entry.time and wave.last_time and not _close(wave.last_time, entry.time)):
            wave = latest[key] = wave_of(entry)
            causes = [by_id[cause].time for cause in entry.caused_by if cause in by_id]
            wave.against_order = any(_before(entry.time, cause) for cause in causes)
            waves.append(wave)
        else:
            wave.add(entry)
    return waves


def wave_of(entry: CascadeEvent) -> Wave:
    """One entry alone."""
    wave = Wave(entry.role, entry.what, entry.time, entry.time)
    wave.add(entry)
    return wave


def choose_waves(waves: Sequence[Wave], limit: int) -> tuple[list[Wave], list[Wave]]:
    """At most ``limit`` waves worth a line, in order, and those left out.

    Unrelated ones are left out, then the latest teardown, then the latest collateral; initiators go last of all.
    """
    ranked = sorted(range(len(waves)), key=lambda index: (ROLE_ORDER[waves[index].role], index))
    kept = {index for index in ranked[:limit] if waves[index].role != "unrelated"}
    shown = [wave for index, wave in enumerate(waves) if index in kept]
    return shown, [wave for index, wave in enumerate(waves) if index not in kept]


def zero_time(waves: Sequence[Wave], initiator_time: datetime | None) -> datetime | None:
    """The time that the others are counted from: the initiator's, else the earliest known."""
    first = [wave.time for wave in waves if wave.role == "initiator" and wave.time]
    return initiator_time or min(first or [wave.time for wave in waves if wave.time], default=None)


def _before(effect: datetime | None, cause: datetime | None) -> bool:
    return effect is not None and cause is not None and (cause - effect).total_seconds() > _STAMP_ERROR_S


def _close(earlier: datetime, later: datetime) -> bool:
    return (later - earlier).total_seconds() <= _SAME_WAVE_S


def _in_order(cascade: Sequence[CascadeEvent]) -> list[CascadeEvent]:
    placed: dict[str, float] = {entry.id: entry.time.timestamp() for entry in cascade if entry.time}
    # An effect stands after its causes, also without a time or with a wrong one. A few rounds carry that down a chain.
    for _ in range(4):
        for entry in cascade:
            causes = [placed[cause] for cause in entry.caused_by if cause in placed]
            if causes:
                placed[entry.id] = max(placed.get(entry.id, causes[0]), *causes)

    def key(entry: CascadeEvent) -> tuple[float, int]:
        unplaced = float("-inf") if entry.role == "initiator" else float("inf")
        return placed.get(entry.id, unplaced), ROLE_ORDER[entry.role]

    return sorted(cascade, key=key)
