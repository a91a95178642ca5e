"""Step lines whose loss or gradient norm is no number, and skipped steps of loss scalers, in any framework.

Printed by: Hugging Face Trainer (``{'loss': nan, …}``), torchtitan (padded with blanks), fairseq, apex, private loops.
The step line itself is thinned out as progress, these rows are not: they say since when. Megatron's own count of NaN
iterations is in ``megatron.py``, DeepSpeed's scaler in ``deepspeed.py``.
"""

from __future__ import annotations

from correlator.events import Parser, Pattern

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
            regex=r"^(?:.*?\b(?:step|iter(?:ation)?)s?[ :=]+(?P<step>\d+))?.*?(?P<what>\w*(?:loss|norm))['\"]?[:= ]+'?"
            r"(?i:nan)\b(?:.*?'epoch': '?(?P<epoch>[\d.]+))?",
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
