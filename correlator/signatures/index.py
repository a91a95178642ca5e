"""The signatures by event, and which of them fits an event and its text best."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

from correlator.signatures.model import Signature

#: Event of a line that no parser took and a signature's own literal found.
OWN_EVENT = "log.message"

#: Attributes with text of the event beside ``body``: what is first in time (the exception raised first; the traceback
#: that a launcher repeats), and the last link of an exception chain.
FIRST_TEXT = (("type", "message"), ("", "traceback"))
LAST_TEXT = (("outer_type", "outer_message"),)

#: Numbers, also hexadecimal words with a digit in them (addresses, ids).
NUMBER = r"0[xX][0-9a-fA-F]+|\b[a-fA-F]*[0-9][0-9a-fA-F]*\b|[0-9]+"
#: A class of characters with single digits in it, such as ``[246]`` or ``[1-9]``; all digits alike are no such class.
_DIGIT_CLASS = re.compile(r"(?<!\\)\[(?!0-9(?:a-f)?(?:A-F)?\])[a-fA-F-]*[0-9][0-9a-fA-F-]*\]")

#: Events that are plain log lines. Where such a line itself says that the trouble was dealt with, it is no cause.
_PLAIN_EVENTS = frozenset({OWN_EVENT, "log.error", "os.error"})
_DEALT_WITH = re.compile(
    r"(?i)\b(re-?try|re-?trying|retries left|attempt \d+ ?(of|/)|will try again|skip(ped|ping)|ignor(ed|ing)|handled|"
    r"recovered|fall(s|ing)? back|fell back|using .{1,40} instead|continuing|non-?fatal)\b"
)

#: Gives the value of a column or attribute as text, or None.
Fact = Callable[[str], str | None]


@cache
def _compiled(regex: str) -> re.Pattern[str]:
    # Far more patterns than re's own cache holds.
    return re.compile(regex, re.MULTILINE)


def text_holds(signature: Signature, text: str) -> bool:
    """Whether all text conditions of a signature hold for ``text``; its event and ``where`` are not looked at."""
    match = signature.match
    if match.contains and not any(part in text for part in match.contains):
        return False
    if not all(part in text for part in match.all_of) or any(part in text for part in match.not_contains):
        return False
    return not match.regex or _compiled(match.regex).search(text) is not None


def _wanted(value: object) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, tuple) else (str(value),)


#: Facts that follow from others: more processes counted at a barrier than the world has.
_DERIVED = {"workers_beyond_world": ("worker_count", "world_size")}


def _known(name: str, fact: Fact) -> str | None:
    if name not in _DERIVED:
        return fact(name)
    more, less = (fact(source) for source in _DERIVED[name])
    if more is None or less is None or not (more.isdecimal() and less.isdecimal()):
        return None
    return "true" if int(more) > int(less) else "false"


def _holds(signature: Signature, text: str, fact: Fact) -> bool:
    where = signature.match.where
    return all(_known(name, fact) in _wanted(value) for name, value in where.items()) and text_holds(signature, text)


class Index:
    """Signatures by event name, best first, and what their rules ask of a row."""

    def __init__(self, signatures: Sequence[Signature]) -> None:
        ordered = sorted(signatures, key=lambda s: (-s.priority, -s.weight, s.id))
        self._ordered = tuple(ordered)
        self._by_event: dict[str, tuple[Signature, ...]] = {}
        asked = {name for s in ordered for name in s.match.where}
        self.facts = tuple(sorted({source for name in asked for source in _DERIVED.get(name, (name,))}))
        spelled = {
            number
            for s in ordered
            for part in (*s.match.contains, *s.match.all_of, *s.match.not_contains, s.match.regex)
            for number in re.findall(NUMBER, part)
        }
        # The empty text is in each list because polars cannot tell the type of an empty one; it never matches a number
        # or an event.
        self.spelled_numbers = ["", *sorted(spelled)]
        exact = [s for s in ordered if _DIGIT_CLASS.search(s.match.regex)]
        literals = {part for s in exact if not s.match.events for part in s.match.contains}
        self.exact_events = ["", *sorted({event for s in exact for event in s.match.events})]
        self.exact_text = "|".join(map(re.escape, sorted(literals))) or r"\A\z."

    def candidates(self, event: str) -> tuple[Signature, ...]:
        """The signatures that an event can have, best first."""
        if event not in self._by_event:
            fitting = tuple(s for s in self._ordered if not s.match.events or event in s.match.events)
            self._by_event[event] = fitting
        return self._by_event[event]

    def best(self, event: str, first: str, last: str, fact: Fact) -> Signature | None:
        """The best signature of an event; ``last`` is the text of later links of an exception chain, often empty."""
        if event in _PLAIN_EVENTS and _DEALT_WITH.search(first):
            fitting = (s for s in self.candidates(event) if s.role != "cause")
            return next((s for s in fitting if _holds(s, first, fact)), None)
        found = next((s for s in self.candidates(event) if _holds(s, first, fact)), None)
        if not last or (found is not None and not found.is_fallback):
            return found
        later = next((s for s in self.candidates(event) if _holds(s, f"{first}\n{last}", fact)), None)
        return later if found is None or (later is not None and later.priority > found.priority) else found
