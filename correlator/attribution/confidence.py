"""How sure the answer is.

The numbers are written by hand, none is fitted. ``benchmarks/calibration.py`` measures them. The only measurement that
says what to expect of a new log is one on cases that nobody had seen while the rules were written; over 40 such ones,
one answer each, the class was right as follows:

    ============  =======  ===============  =====
    confidence    answers  mean confidence  right
    ============  =======  ===============  =====
    up to 0.4           5             0.30    0 %
    0.5 to 0.7          3             0.61  100 %
    0.7 to 0.8         10             0.77   80 %
    0.8 to 0.9         10             0.86   90 %
    0.9 to 1.0         12             0.91  100 %
    ============  =======  ===============  =====

The first row are answers of class ``unknown``. All 22 answers that named ranks named the right ones. Over cases that
were at hand the class is right nearly always whatever the confidence, which is no reason to raise it.
"""

from __future__ import annotations

from collections.abc import Sequence

from correlator.attribution.initiator import Ranked
from correlator.cascade.flight import RULES_ON_DUMPS
from correlator.cascade.model import Finding

_AGREEMENT = 0.06
_RIVAL = 0.12
#: A rival whose score is this close leaves the answer open.
_CLOSE = 0.1
_MOST = 0.97


def _other_source(finding: Finding, than: Finding) -> bool:
    """Whether one speaks from dumps and the other from logs; then every contradiction between them counts."""
    named = bool(finding.incident.ranks and than.incident.ranks)
    return named and (finding.rule in RULES_ON_DUMPS) != (than.rule in RULES_ON_DUMPS)


def confidence(ranked: Sequence[Ranked]) -> float:
    """The confidence of the first finding, between 0 and 1, to two digits."""
    if not ranked:
        return 0.2
    best = ranked[0]
    value = best.finding.strength + _AGREEMENT * min(best.agreeing, 2)
    rivals = [
        r
        for r in ranked[1:]
        if (r.score > best.score - _CLOSE or _other_source(best.finding, r.finding))
        and set(r.finding.incident.ranks) != set(best.finding.incident.ranks)
        and r.finding.trust in ("outside", "local", "protocol", "exit")
    ]
    return round(max(0.05, min(_MOST, value - _RIVAL * min(len(rivals), 2))), 2)
