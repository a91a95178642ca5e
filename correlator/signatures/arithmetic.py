"""Sizes that do not fit, worked out on the numbers that the log itself prints.

An entry says which size must be a multiple (or the product) of which others and how its text prints them
(``model.Arithmetic``); here they are put in. Nothing of an entry or of a log is evaluated: sizes are decimal numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from math import isqrt, prod
from typing import NamedTuple

from correlator.signatures.model import Arithmetic, Signature
from correlator.untrusted import read_number

#: Sizes whose usual names are no plain words.
_NAMES = {"tp": "TP", "pp": "PP", "cp": "CP", "dp": "DP", "ep": "EP", "etp": "expert TP"}
#: Beyond this no divisors are looked for.
_LARGEST = 10**10


class WorkedOut(NamedTuple):
    """What does not fit, and what would, as a sentence each."""

    finding: str
    advice: str


def work_out(entry: Signature, text: str, known: Mapping[str, int] | None = None) -> WorkedOut | None:
    """The arithmetic of an entry on the sizes that ``text`` prints, or else on those ``known`` of the job.

    None where the entry has none, a size is not known, or the sizes fit.
    """
    answers = (_by_rule(rule, text, known or {}) for rule in entry.arithmetic)
    return next((answer for answer in answers if answer), None)


def _by_rule(rule: Arithmetic, text: str, known: Mapping[str, int]) -> WorkedOut | None:
    sizes = {**known, **_printed(rule, text)}
    names = next((names for names in rule.by if all(sizes.get(name) for name in names)), None)
    whole = sizes.get(rule.whole)
    if names is None or not whole:
        return None
    product = rule.times * prod(sizes[name] for name in names)
    if whole == product or (not rule.equal and whole % product == 0):
        return None
    factors = " x ".join([*([str(rule.times)] if rule.times > 1 else []), *(f"{_name(n)} {sizes[n]}" for n in names)])
    result = f"{factors} = {product}" if " x " in factors else factors
    held = f"{_name(rule.whole)} {_counted(rule, whole, sizes)}"
    if rule.equal:
        finding = f"{result}, but {held}"
        ways = [_set(rule, rule.whole, [product], sizes), *_other_factors(rule, names, sizes, whole, product)]
    else:
        count, rest = divmod(whole, product)
        finding = f"{held} is no multiple of {result}: {whole} = {count} x {product} + {rest}"
        multiples = [n for n in (count * product, (count + 1) * product) if n]
        ways = [_set(rule, rule.whole, multiples, sizes), _divisors(rule, names, whole, product)]
    return WorkedOut(f"{finding[0].upper()}{finding[1:]}.", f"{', or '.join(filter(None, ways))}.")


def _printed(rule: Arithmetic, text: str) -> dict[str, int]:
    found: dict[str, int] = {}
    for regex in rule.capture:
        if match := re.search(regex, text):
            stated = {name: read_number(value) for name, value in match.groupdict().items() if value}
            found |= {name: number for name, number in stated.items() if number and name not in found}
    return found


def _name(size: str) -> str:
    return _NAMES.get(size, size.replace("_", " "))


def _set(rule: Arithmetic, size: str, values: list[int], sizes: Mapping[str, int]) -> str:
    options = " or ".join(_counted(rule, value, sizes) if size == rule.whole else str(value) for value in values)
    return f"Set {rule.flags.get(size) or _name(size)} to {options}"


def _counted(rule: Arithmetic, value: int, sizes: Mapping[str, int]) -> str:
    """The value; a world size with the nodes that give it, where the processes of a node are known."""
    each = sizes.get("nproc_per_node")
    if rule.whole != "world_size" or not each or value % each:
        return str(value)
    return f"{value} ({value // each} nodes x {each} processes)"


def _divisors(rule: Arithmetic, names: tuple[str, ...], whole: int, product: int) -> str:
    """What to take instead of the product: the divisors of ``whole`` next to it."""
    if whole > _LARGEST or whole % rule.times:
        return ""
    of = whole // rule.times
    wanted = product // rule.times
    small = [n for n in range(1, isqrt(of) + 1) if of % n == 0]
    divisors = sorted({*small, *(of // n for n in small)})
    below, above = [n for n in divisors if n < wanted][-1:], [n for n in divisors if n > wanted][:1]
    options = " or ".join(map(str, [*below, *above]))
    if len(names) == 1:
        return f"{rule.flags.get(names[0]) or _name(names[0])} to {options}"
    return f"choose sizes whose product divides {of}, such as {options}"


def _other_factors(
    rule: Arithmetic, names: tuple[str, ...], sizes: Mapping[str, int], whole: int, product: int
) -> Iterator[str]:
    """The single factors whose change makes the product come out."""
    for name in names:
        if whole * sizes[name] % product == 0:
            yield f"{rule.flags.get(name) or _name(name)} to {whole * sizes[name] // product}"
