"""Round numbers for the axis of a picture, with the words beside them. Positions are seconds."""

from __future__ import annotations

from math import ceil, floor

#: About as many as fit side by side on a wide page; the script of the page draws fewer on a narrow one.
_TICKS = 8
#: From which step on, seconds in the unit, its name.
_UNITS = ((86400, 86400, "d"), (3600, 3600, "h"), (60, 60, "min"), (0.1, 1, "s"), (0, 0.001, "ms"))
#: Steps that people count time in, in seconds: below a minute and above a day by powers of ten.
_STEPS = (
    *(one * 10.0**power for power in range(-9, 1) for one in (1, 2, 5)),
    *(10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 10800, 21600, 43200),
    *(86400.0 * one * 10**power for power in range(6) for one in (1, 2, 5)),
)


def time_ticks(first: float, last: float) -> list[tuple[float, str]]:
    """Round times between two, each with its words.

    >>> time_ticks(-10, 610)[:3], time_ticks(0, 0.4)[1]
    ([(0, '+0 min'), (120, '+2 min'), (240, '+4 min')], (0.05, '+50 ms'))
    """
    step = next((step for step in _STEPS if step >= (last - first) / _TICKS), _STEPS[-1])
    size, unit = next((size, unit) for least, size, unit in _UNITS if step >= least)
    numbers = range(ceil(first / step), floor(last / step) + 1)
    return [(round(number * step, 9), f"{number * step / size:+.6g} {unit}") for number in numbers]
