"""Entries near a text that none fits exactly: a torn line, a phrase from memory, a few words.

Two signs are counted over an entry's title, id, literals and the sample lines it must hit: whether the text stands
there as a phrase, and which share of the text's words occurs there, rare words counting more than common ones. Of its
questions only phrases count: the words of prose are in any sentence.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from correlator.signatures.index import text_holds
from correlator.signatures.model import Signature, load_signatures

#: Longer numbers are values (process ids, addresses), no words.
_WORD = re.compile(r"[a-z]+|(?<![0-9])[0-9]{1,3}(?![0-9])")
#: The least share of the text's words, weighted by rarity, that an entry must have.
_SHARE = 0.5
#: Entries much worse than the best one are left out.
_WORST_TO_BEST = 0.7
#: A word that no entry has may be a name of the user's own; it counts less than a word that singles out an entry.
_STRANGE = 0.5


class _Entry(NamedTuple):
    signature: Signature
    phrases: str
    words: frozenset[str]
    headline: frozenset[str]


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


@lru_cache(maxsize=1)
def _entries() -> tuple[tuple[_Entry, ...], dict[str, float]]:
    """All entries, and the weight of each word by its rarity."""
    found = []
    for s in load_signatures():
        headline = f"{s.title}\n{s.id.replace('-', ' ')}"
        lines = (sample.line for sample in s.samples if sample.hit)
        printed = [headline, *(other.text for other in s.literals), *s.match.contains, *s.match.all_of, *lines]
        words = [_words(text) for text in printed]
        phrases = "\n".join(f" {' '.join(each)} " for each in (*words, *(_words(each.ask) for each in s.questions)))
        found.append(_Entry(s, phrases, frozenset(chain.from_iterable(words)), frozenset(_words(headline))))
    counts = Counter(word for entry in found for word in entry.words)
    return tuple(found), {word: math.log(1 + len(found) / count) for word, count in counts.items()}


def titled(text: str) -> list[Signature]:
    """The entries that have ``text`` as their title or as another printed text, whatever the case and the spacing."""
    return _titles().get(_spelling(text), [])


def _spelling(text: str) -> str:
    return " ".join(text.lower().split())


@lru_cache(maxsize=1)
def _titles() -> dict[str, list[Signature]]:
    found: dict[str, list[Signature]] = defaultdict(list)
    for s in load_signatures():
        for text in {_spelling(s.title), *(_spelling(other.text) for other in s.literals)}:
            found[text].append(s)
    return found


def nearest(text: str, limit: int = 8) -> list[Signature]:
    """Up to ``limit`` entries near ``text``, best first; empty where nothing of it is known."""
    entries, weights = _entries()
    words = _words(text)
    phrase = f" {' '.join(words)} "
    strange = _STRANGE * max(weights.values())
    whole = sum(weights.get(word, strange) for word in set(words))
    scored = []
    for entry in entries:
        share = sum(weights[word] for word in set(words) & entry.words) / whole if whole else 0
        spoken = entry.signature.match.contains or entry.signature.match.all_of or entry.signature.match.regex
        fits = bool(spoken) and text_holds(entry.signature, text)
        if share < _SHARE and not fits:
            continue
        headline = sum(weights[word] for word in set(words) & entry.headline) / whole
        scored.append((share + (phrase in entry.phrases) + fits + headline / 2, entry.signature))
    # Stable: of equals the better entry (priority, weight) stays first.
    scored.sort(key=lambda pair: -pair[0])
    return [signature for score, signature in scored[:limit] if score >= _WORST_TO_BEST * scored[0][0]]
