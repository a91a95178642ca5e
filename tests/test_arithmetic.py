"""Sizes that do not fit, worked out on the numbers that the log prints or the job states."""

from __future__ import annotations

import pytest

from correlator.lookup import look_up
from correlator.pipeline import diagnose
from correlator.signatures import by_id
from correlator.signatures.arithmetic import work_out


@pytest.mark.parametrize(
    ("line", "finding", "advice"),
    [
        (
            "AssertionError: world size (20) is not divisible by total_model_size (total_model_size=8)",
            "World size 20 is no multiple of model size 8: 20 = 2 x 8 + 4.",
            "to 16 or 24, or model size to 5 or 10.",
        ),
        (
            "AssertionError: world size (12) is not divisible by tensor parallel size (4) times pipeline parallel size (2)",
            "World size 12 is no multiple of TP 4 x PP 2 = 8: 12 = 1 x 8 + 4.",
            "to 8 or 16, or choose sizes whose product divides 12, such as 6 or 12.",
        ),
        (
            "AssertionError: Invalid parallel dims: dp_replicate(1) * dp_shard(4) * cp(1) * tp(2) * pp(1) != WORLD_SIZE(16)",
            "Dp replicate 1 x dp shard 4 x CP 1 x TP 2 x PP 1 = 8, but world size 16.",
            "to 8, or dp replicate to 2, or dp shard to 8, or CP to 2, or TP to 4, or PP to 2.",
        ),
        (
            "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size 256 != 4 * 8 * 4",
            "Micro batch 4 x accumulation steps 8 x world size 4 = 128, but train batch size 256.",
            "Set train_batch_size to 128, or train_micro_batch_size_per_gpu to 8, or gradient_accumulation_steps to 16, "
            "or the number of processes to 8.",
        ),
        (
            "ValueError: Total number of attention heads (12) must be divisible by tensor parallel size (8).",
            "Heads 12 is no multiple of TP 8: 12 = 1 x 8 + 4.",
            "--tensor-model-parallel-size to 6 or 12.",
        ),
        ("AssertionError: 96 is not divisible by 36", "96 = 2 x 36 + 24.", "to 72 or 108, or the second to 32 or 48."),
    ],
)
def test_the_numbers_of_the_text_are_worked_out(line: str, finding: str, advice: str) -> None:
    found = look_up(line)
    assert found is not None and found.numbers is not None
    assert finding in found.numbers.finding
    assert found.numbers.advice.endswith(advice)


def test_sizes_of_the_job_fill_in_what_the_text_does_not_print() -> None:
    text = "AssertionError: seq-length should be a multiple of 2 * context-parallel-size if context-parallel-size > 1."
    entry = by_id()["sequence-not-divisible"]
    assert work_out(entry, text) is None
    answer = work_out(entry, text, {"seq_length": 4100, "cp": 8})
    assert answer is not None and answer.finding.startswith("Seq length 4100 is no multiple of 2 x CP 8 = 16")
    assert "--seq-length to 4096 or 4112" in answer.advice


@pytest.mark.parametrize("number", ["0", "9" * 30, "-4", "٣"])
def test_numbers_that_are_none_work_nothing_out(number: str) -> None:
    entry = by_id()["size-not-divisible"]
    assert work_out(entry, f"7 is not divisible by {number}") is None
    assert work_out(entry, f"{number} is not divisible by 7") is None or number == "-4"


def test_sizes_that_fit_say_nothing() -> None:
    assert work_out(by_id()["size-not-divisible"], "96 is not divisible by 32") is None


def test_the_report_says_what_would_fit(tmp_path) -> None:
    for rank in range(4):
        (tmp_path / f"rank{rank}.log").write_text(
            "WORLD_SIZE=20\nTraceback (most recent call last):\n"
            '  File "/opt/train/train.py", line 88, in <module>\n    main()\n'
            "AssertionError: world size (20) is not divisible by total_model_size (total_model_size=8)\n",
            encoding="utf-8",
        )
    document = diagnose(tmp_path).document
    assert document.verdict.signature == "world-size-not-divisible"
    assert "20 = 2 x 8 + 4" in document.verdict.summary
    assert document.actions[0].kind == "changes-config" and "16" in document.actions[0].title
