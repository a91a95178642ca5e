"""Step lines whose loss or gradient norm is no number, and skipped steps of loss scalers, in any framework.

Printed by: Hugging Face Trainer (``{'loss': nan, …}``), torchtitan (padded with blanks), fairseq, apex, private loops.
The step line itself is thinned out as progress, these rows are not: they say since when. Megatron's own count of NaN
iterations is in ``megatron.py``, DeepSpeed's scaler in ``deepspeed.py``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from correlator.events import Found, Parser, Pattern

# Three searches, each of which goes over the line once, instead of one that would try every step with every loss.
_NAN = re.compile(r"(?:loss|norm)['\"]?[:= ]{1,40}'?(?i:nan)\b")
_STEP = re.compile(r"\b(?:step|iter(?:ation)?)s?[ :=]{1,20}(\d{1,18})")
_EPOCH = re.compile(r"'epoch': '?([\d.]{1,20})")
_NAME_LIMIT = 80


def _nan_line(lines: Sequence[str]) -> list[Found]:
    text = lines[0]
    match = _NAN.search(text)
    if match is None:
        return []
    end = match.start() + 4
    fields: dict[str, object] = {"what": re.findall(r"\w*$", text[max(0, end - _NAME_LIMIT) : end])[0]}
    if step := _STEP.search(text, 0, match.start()):
        fields["step"] = step[1]
    if epoch := _EPOCH.search(text, match.end()):
        fields["epoch"] = epoch[1]
    return [Found(0, 0, fields)]


PARSER = Parser(
    name="numerics",
    patterns=(
        Pattern(
            event="trainer.nan",
            literals=(
                "loss': nan",
                "loss': 'nan",
                "norm': nan",
                "norm': 'nan",
                "loss: nan",
                "loss: NaN",
                "loss=nan",
                "loss nan",
                "_norm: nan",
                "norm=nan",
                "_norm nan",
                ":     nan",
            ),
            block=_nan_line,
            block_lines=0,
            severity="warning",
            sample="{'loss': nan, 'grad_norm': nan, 'learning_rate': 7e-06, 'epoch': 0.12}",
            not_samples=("the loss: nano seconds are lost",),
        ),
        Pattern(  # fairseq, apex
            event="trainer.overflow",
            literals=("overflow detected, ", "Gradient overflow. "),
            regex=r"(?:[Gg]radient )?overflow detected, ignoring gradient|Gradient overflow\.\s+Skipping step",
            severity="info",
            sparse=True,
            sample="gradient overflow detected, ignoring gradient, setting loss scale to: 8.0",
        ),
    ),
)
