"""Progress bars: tqdm (also as Hugging Face, Lightning and Composer use it) and Lightning's rich bar.

A bar without a caption, or with one of the words that loops over batches carry, is training; any other one says what
its process was busy with (loading, tokenizing, downloading), which explains why others waited. Lightning counts
inside the epoch, so ``epoch`` stands beside ``step``.
"""

from __future__ import annotations

from correlator.events import Pattern

#: Units in which tqdm bars count: iterations, batches, examples, bytes. The first two can be training.
_STEP_UNITS = ("it/s", "s/it", "batch/s", "s/batch", "ba/s", "steps/s")
_WORK_UNITS = ("examples/s", "B/s]", "tokens/s,", "doc/s", "files/s")

_COUNT = r"\s*(?P<percent>\d+)%\|[^|]*\|\s*(?P<step>\d+)/(?P<total>\d+) \["
_LOSS = r"(?:.*?\b(?:[A-Za-z_]+[/_])?loss[=:] ?(?P<loss>[-+.\deE]+|nan|inf))?"

BARS = (
    Pattern(
        event="trainer.progress",
        literals=_STEP_UNITS,
        regex=r"^\W*(?:train\w*\s+)?(?i:epoch)[ :]*(?P<epoch>\d+)(?:/\d+)?[^|%]*?:?" + _COUNT + _LOSS,
        severity="info",
        sparse=True,
        sample="Epoch 3:  45%|####5     | 5400/12000 [1:30:00<1:50:00,  1.00it/s, v_num=0, train_loss=3.426]",
    ),
    Pattern(
        event="trainer.progress",
        literals=_STEP_UNITS,
        regex=r"^\W*Epoch (?P<epoch>\d+)/\S+ +\S+ (?P<step>\d+)/(?P<total>\d+) \d+:\d\d:\d\d \S \S+ [\d.]+it/s" + _LOSS,
        severity="info",
        sparse=True,
        sample="Epoch 3/9  ━━━━━━━━━━ 120/500 0:00:10 • 0:00:31 12.01it/s v_num: 0.000 train_loss: 3.426",
    ),
    Pattern(
        event="trainer.progress",
        literals=_STEP_UNITS,
        regex=r"^\s*(?:(?i:train\w*|steps?|iter\w*|batch(?:es)?|optimi[sz]\w*)\b[^|%]*?:)?" + _COUNT + _LOSS,
        severity="info",
        sparse=True,
        sample=" 12%|#2        | 120/1000 [01:00<07:20,  2.00it/s]",
        not_samples=("Loading checkpoint shards:  13%|#         | 2/15 [00:58<06:28, 29.9s/it]",),
    ),
    Pattern(  # torchtune: epoch|step|Loss: x
        event="trainer.progress",
        literals=_STEP_UNITS,
        regex=r"^\s*(?P<epoch>\d+)\|(?P<step>\d+)\|Loss: (?P<loss>[\d.]+|nan): +\d+%\|",
        severity="info",
        sparse=True,
        sample="1|1200|Loss: 2.345:   5%|5         | 12/240 [01:00<19:00,  5.00s/it]",
    ),
    Pattern(  # the YOLO family: epoch/last, memory, losses
        event="trainer.progress",
        literals=_STEP_UNITS,
        regex=r"^\s*(?P<epoch>\d+)/\d+\s+[\d.]+[GM]B?\b[^|%]*?:" + _COUNT,
        severity="info",
        sparse=True,
        sample="      3/499      12.3G      1.234     41   640:   3%|3         | 120/3697 [01:00<29:00,  2.00it/s]",
    ),
    Pattern(
        event="trainer.activity",
        literals=(*_STEP_UNITS, *_WORK_UNITS),
        regex=r"^\s*(?:(?P<what>[^|%\[]{2,80}?):? "
        r")?\s*(?P<percent>\d+)%\|[^|]*\|\s*(?P<done>[\d.]+)[kMGT]?/(?P<of>[\d.]+)",
        severity="info",
        sparse=True,
        sample="Running tokenizer on dataset:   5%|#    | 152000/2969526 [16:14<5:01:12, 156.15 examples/s]",
    ),
    Pattern(
        event="trainer.activity",
        literals=_STEP_UNITS,
        regex=r"^\s*(?P<what>[A-Z][^|%\[:]{2,60}): (?P<done>\d+)it \[",
        severity="info",
        sparse=True,
        sample="Testing: 0it [00:00, ?it/s]",
    ),
)
