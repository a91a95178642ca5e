"""How sure the answer is. The numbers are starting points, not yet calibrated on cases with a known truth."""

from __future__ import annotations

from collections.abc import Sequence

from correlator.attribution.initiator import Ranked

_AGREEMENT = 0.06
_RIVAL = 0.12
#: A rival whose score is this close leaves the answer open.
_CLOSE = 0.1
_MOST = 0.97


def confidence(ranked: Sequence[Ranked]) -> float:
    """The confidence of the first finding, between 0 and 1, to two digits."""
    if not ranked:
        return 0.2
    best = ranked[0]
    value = best.finding.strength + _AGREEMENT * min(best.agreeing, 2)
    rivals = [
        r
        for r in ranked[1:]
        if r.score > best.score - _CLOSE
        and set(r.finding.incident.ranks) != set(best.finding.incident.ranks)
        and r.finding.trust in ("outside", "local", "protocol", "exit")
    ]
    return round(max(0.05, min(_MOST, value - _RIVAL * min(len(rivals), 2))), 2)
