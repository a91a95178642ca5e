"""Preflight against Megatron-LM's own validation, side by side, on random arguments.

Runs where CORRELATOR_MEGATRON names a checkout of Megatron-LM and CORRELATOR_MEGATRON_PYTHON an interpreter with torch
(the CPU build will do) and what the checkout imports.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from correlator.preflight import examine

CHECKOUT, PYTHON = os.environ.get("CORRELATOR_MEGATRON"), os.environ.get("CORRELATOR_MEGATRON_PYTHON")
SETS = 400
#: Agreement that is asked for.
LEAST = 0.99

CHOICES: dict[str, list[object]] = {
    "num-layers": [5, 8, 12, 12, 24, 24, 36, 48],
    "hidden-size": [96, 96, 192, 192, 100],
    "num-attention-heads": [4, 6, 12, 12, 24, 24],
    "seq-length": [34, 48, 96, 96, 120],
    "micro-batch-size": [1, 2, 4],
    "tensor-model-parallel-size": [1, 1, 2, 3, 4],
    "pipeline-model-parallel-size": [1, 1, 2, 3, 4],
    "context-parallel-size": [1, 1, 1, 2, 3],
}
SOMETIMES: dict[str, list[object]] = {
    "global-batch-size": [8, 16, 24, 30, 64, 128],
    "num-query-groups": [2, 3, 4, 8],
    "kv-channels": [16],
    "num-layers-per-virtual-pipeline-stage": [1, 2, 3],
    "decoder-first-pipeline-num-layers": [1, 2, 3],
    "decoder-last-pipeline-num-layers": [1, 2, 5],
    "num-experts": [2, 4, 6, 8],
    "expert-model-parallel-size": [2, 4],
    "save": ["/tmp/none"],
    "save-interval": [10],
    "train-samples": [1000],
    "lr-decay-samples": [100],
    "lr-warmup-iters": [2],
    "lr-warmup-fraction": [0.1],
    "min-lr": [0.001, 0.00001],
    "recompute-granularity": ["full", "selective"],
    "recompute-method": ["uniform", "block"],
    "recompute-num-layers": [1],
}
FLAGS = [
    "sequence-parallel", "bf16", "fp16", "fp16-lm-cross-entropy", "fp32-residual-connection", "group-query-attention",
    "use-distributed-optimizer", "overlap-grad-reduce", "overlap-param-gather", "distribute-saved-activations",
    "account-for-embedding-in-pipeline-split", "account-for-loss-in-pipeline-split", "tp-comm-overlap",
]  # fmt: skip
#: Rules about what fails behind the validation: while the model is built, or in the first step.
LATER = {
    "experts-without-sequence-parallel", "ffn-divisible", "interleaved-micro-batches", "sequence-divisible-by-tp",
}  # fmt: skip
#: How often each of the two is given.
OFTEN = 0.03


def random_sets() -> Iterator[tuple[int, list[str]]]:
    source = random.Random(20)
    for _ in range(SETS):
        given = {name: source.choice(values) for name, values in CHOICES.items()}
        given |= {name: source.choice(values) for name, values in SOMETIMES.items() if source.random() < OFTEN}
        given["max-position-embeddings"] = source.choice([given["seq-length"], 128, 128, 128, 32])
        words = [word for name, value in given.items() for word in (f"--{name}", str(value))]
        words += [f"--{flag}" for flag in FLAGS if source.random() < OFTEN]
        # What it asks for beside what the rules are about, and none of what would ask for a GPU.
        words += ["--train-iters", "10", "--lr", "0.0001", "--mock-data", "--vocab-size", "100"]
        words += ["--tokenizer-type", "NullTokenizer"]
        words += ["--transformer-impl", "local", "--no-gradient-accumulation-fusion", "--no-persist-layer-norm"]
        # Sizes that fit are as frequent as sizes that do not.
        model = 1
        for axis in ("tensor-model", "pipeline-model", "context"):
            model *= int(str(given[f"{axis}-parallel-size"]))
        yield source.choice([12, 16, model, model * 2, model * 2, model * 4, model * 4, model * 8]), words


@pytest.mark.skipif(not (CHECKOUT and PYTHON), reason="CORRELATOR_MEGATRON and CORRELATOR_MEGATRON_PYTHON are not set")
def test_agreement(capsys: pytest.CaptureFixture[str]) -> None:
    sets = list(random_sets())
    oracle = Path(__file__).with_name("megatron_oracle.py")
    done = subprocess.run(
        [str(PYTHON), "-W", "ignore", oracle, str(CHECKOUT)],
        input=json.dumps([{"world_size": size, "arguments": words} for size, words in sets]),
        capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = json.loads(done.stdout.splitlines()[-1])
    differing = []
    for (size, words), error in zip(sets, theirs, strict=True):
        report = examine(
            ["python", "pretrain_gpt.py", *words], world_size=size, environment={"CUDA_DEVICE_MAX_CONNECTIONS": "1"}
        )
        ours = [
            finding.rule for finding in report.findings if finding.severity == "blocker" and finding.rule not in LATER
        ]
        if bool(ours) is not bool(error):
            differing.append(f"{size} ranks, {' '.join(words)}\n    theirs: {error}\n    ours: {ours}")
    refused = sum(bool(error) for error in theirs)
    share = 1 - len(differing) / len(sets)
    with capsys.disabled():
        print(f"\n{CHECKOUT}: {len(sets)} sets, {refused} refused, agreement {share:.1%}")
        print("\n".join(differing[:20]))
    assert 0.2 < refused / len(sets) < 0.95
    assert share >= LEAST
