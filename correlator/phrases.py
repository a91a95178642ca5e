"""Words that every text of a diagnosis shares: ranks in singular and plural."""

from __future__ import annotations

import re
from collections.abc import Iterable

from correlator.hostlist import fold_ranges

_SEVERAL = re.compile(r"\b([Rr])ank (\d+(?:[-,]\d+)+)\b( was\b| is\b| has\b| stands\b| waits\b)?")
_PLURALS = {" was": " were", " is": " are", " has": " have", " stands": " stand", " waits": " wait"}
_ONE_STEP = re.compile(r"steps (\d+) to \1 are\b")


def named_ranks(ranks: Iterable[int]) -> str:
    """Ranks by name.

    >>> named_ranks([3]), named_ranks([2, 3, 7])
    ('rank 3', 'ranks 2-3,7')
    """
    numbers = sorted(set(ranks))
    return f"rank{'s' if len(numbers) != 1 else ''} {fold_ranges(numbers)}"


def agree(text: str) -> str:
    """A sentence in which the number of ranks and steps and the words about them agree.

    >>> agree("Rank 2-3 was too slow"), agree("steps 11 to 11 are repeated")
    ('Ranks 2-3 were too slow', 'step 11 is repeated')
    """
    text = _SEVERAL.sub(lambda m: f"{m[1]}anks {m[2]}{_PLURALS.get(m[3] or '', '')}", text)
    return _ONE_STEP.sub(r"step \1 is", text)


def inside(title: str) -> str:
    """A title as it stands within a sentence: its first letter small, unless the first word is a name.

    >>> inside("Errors on one GPU"), inside("NVLink hardware error")
    ('errors on one GPU', 'NVLink hardware error')
    """
    first = title.partition(" ")[0]
    return title if first[1:] != first[1:].lower() else title[:1].lower() + title[1:]


def sentence(text: str) -> str:
    """``text`` with exactly one mark at its end.

    >>> sentence("it left."), sentence("it left")
    ('it left.', 'it left.')
    """
    text = text.strip()
    return text if not text or text[-1] in ".!?" else text + "."
