"""Step lines of private training loops: a word for the step, its number, and something that only progress carries.

``step 12/100``, ``rank 1 step 12 loss 3.29``, ``iter 12 | tokens 1000 | loss 2.3``, ``step 12 enter``,
``iteration 12 done``.
The words are frequent, so these come after all framework forms and refuse lines that other parsers own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from correlator.events import Found, Pattern

_WORD = r"\b(?:global[_ ]step|train[_ ]step|step|iter(?:ation)?)s?\b\s{0,8}[:=#]?\s{0,8}\[?\s{0,8}(?P<step>\d+)"
_TOTAL = re.compile(_WORD + r"\s{0,8}(?:/|of)\s{0,8}(?P<total>\d+)\b", re.IGNORECASE)
_MARKED = re.compile(
    _WORD + r"\b[\s|,;:\])-]*(?P<mark>start|begin|enter|done|end|finished|completed?)\b", re.IGNORECASE
)
_BEFORE_LOSS = re.compile(_WORD + r"\b(?P<between>.{0,80}?)\b(?:\w{1,60}_)?loss\b", re.IGNORECASE)
_LOSS = re.compile(
    r"\b(?:\w{1,60}_)?loss\b['\"]?[ =:|]*(?P<loss>[-+]?(?:\d[\d.]*(?:e[-+]?\d+)?|nan|inf))", re.IGNORECASE
)
_EPOCH = re.compile(r"\bepoch[ :=\[]*(?P<epoch>\d+)", re.IGNORECASE)
_RANK = re.compile(r"\brank[ :=]*(?P<rank>\d+)\b[^\w]*$", re.IGNORECASE)
#: Megatron's own line, bars, evaluation, and sentences about a step.
_OWNED = ("elapsed time per iteration", "%|", "alidation", "val_", "Eval", "evaluat", "heckpoint", "Error")


def _plain(lines: Sequence[str]) -> list[Found]:
    text = lines[0]
    if any(mark in text for mark in _OWNED):
        return []
    match = _TOTAL.search(text) or _MARKED.search(text) or _BEFORE_LOSS.search(text)
    if match is None:
        return []
    groups = match.groupdict()
    fields: dict[str, object] = {name: groups[name] for name in ("step", "total", "mark") if groups.get(name)}
    for pattern, part in ((_LOSS, text), (_EPOCH, text[: match.start()]), (_RANK, text[: match.start()])):
        if found := pattern.search(part):
            fields |= found.groupdict()
    return [Found(0, 0, fields)]


def _epoch(lines: Sequence[str]) -> list[Found]:
    text = lines[0]
    epoch, loss = _EPOCH.search(text), _LOSS.search(text)
    if epoch is None or loss is None or any(mark in text for mark in _OWNED):
        return []
    return [Found(0, 0, {**epoch.groupdict(), **loss.groupdict()})]


PLAIN = (
    Pattern(
        event="trainer.progress",
        literals=(
            "step ",
            "Step ",
            "step: ",
            "Step: ",
            "step=",
            "step [",
            "iter ",
            "iter: ",
            "Iter ",
            "iteration ",
            "iteration: ",
            "Iteration ",
            "Iteration: ",
        ),
        block=_plain,
        block_lines=0,
        severity="info",
        sparse=True,
        sample="rank 1 step 1200 loss 2.3450 dt 6.10s",
        not_samples=(
            "step 3 of the installation",
            "saving checkpoint at iteration 1200 to /mnt/ckpt",
            "optimizer.step ()",
        ),
    ),
    Pattern(  # one line an epoch: no step, but a sign of progress
        event="trainer.progress",
        literals=("poch ", "poch: ", "poch=", "poch["),
        block=_epoch,
        block_lines=0,
        severity="info",
        sparse=True,
        sample="Epoch 12/90 - loss: 0.1234 - accuracy: 0.9512",
        not_samples=("Epoch 12 begins",),
    ),
)
