"""Where to resume: the judgement over disk and logs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from correlator.checkpoints import Checkpoint, Inventory, scan
from correlator.checkpoints.listed import Listed, compare, size_of
from correlator.checkpoints.resume import judge
from correlator.checkpoints.said import Load, LogSide, Save, Suspicion
from correlator.diagnosis import Resume

FIXTURES = Path(__file__).parents[1] / "fixtures" / "checkpoints"


def on_disk(
    iteration: int, complete: bool | None = True, finite: bool | None = True, problems: tuple[str, ...] = ()
) -> Checkpoint:
    path = f"iter_{iteration:07d}"
    return Checkpoint(path, iteration, "megatron-legacy", complete, problems, {"tp": 2}, finite, 1000, 0)


def inventory(*checkpoints: Checkpoint, tracker: int | None = None, problem: str | None = None) -> Inventory:
    return Inventory("/ckpt", tuple(sorted(checkpoints, key=lambda c: -(c.iteration or 0))), tracker, problem)


def saved(*steps: int) -> tuple[Save, ...]:
    return tuple(Save(step, f"/ckpt/iter_{step:07d}", started=True, finished=True) for step in steps)


def said(answer: Resume, text: str) -> bool:
    return any(text in reason for reason in answer.reasons)


# a directory is given


def test_newest_complete_checkpoint() -> None:
    answer = judge(inventory(on_disk(10), on_disk(20), tracker=20), LogSide(saves=saved(10, 20), last_step=27))
    assert (answer.status, answer.iteration, answer.path) == ("safe", 20, "/ckpt/iter_0000020")
    assert answer.reasons == [
        "iteration 20 is complete, its numbers are finite as far as read; steps 21 to 27 are repeated",
        "to resume: --load /ckpt --ckpt-step 20 (same --tensor-model-parallel-size and --pipeline-model-parallel-size; "
        "releases without --ckpt-step: write 20 into latest_checkpointed_iteration.txt and keep the old value)",
    ]
    assert [(c.iteration, c.topology) for c in answer.candidates] == [(20, "tp=2"), (10, "tp=2")]


def test_newest_is_broken_and_the_mark_still_on_the_older_one() -> None:
    broken = on_disk(20, complete=False, problems=("a shard is missing",))
    answer = judge(inventory(on_disk(10), broken, tracker=10), LogSide())
    assert (answer.status, answer.iteration) == ("safe", 10)
    assert said(answer, "iteration 20 is newer, but incomplete: a shard is missing")
    assert not said(answer, "relaunch")


def test_a_mark_on_a_broken_one_is_told() -> None:
    broken = on_disk(20, complete=False)
    answer = judge(inventory(on_disk(10), broken, tracker=20, problem="it points to iter_0000020, …"), LogSide())
    assert (answer.status, answer.iteration) == ("safe", 10)
    assert said(answer, "a plain relaunch goes wrong: it points to iter_0000020")


def test_a_mark_behind_the_newest_and_no_mark_at_all() -> None:
    assert said(judge(inventory(on_disk(10), on_disk(20), tracker=10), LogSide()), "follows the mark to 10")
    assert said(judge(inventory(on_disk(10)), LogSide()), "a plain relaunch starts from scratch")


def test_only_broken_ones() -> None:
    answer = judge(
        inventory(on_disk(10, complete=False), tracker=10, problem="it points to …"), LogSide(saves=saved(10))
    )
    assert (answer.status, answer.iteration, answer.path) == ("unsafe", None, None)
    assert said(answer, "it points to …")


def test_an_undecided_one_is_neither_safe_nor_unsafe() -> None:
    answer = judge(inventory(on_disk(10, complete=None)), LogSide())
    assert (answer.status, answer.iteration) == ("unknown", 10)


def test_weights_that_are_not_finite() -> None:
    answer = judge(inventory(on_disk(10), on_disk(20, finite=False)), LogSide())
    assert (answer.status, answer.iteration) == ("safe", 10)
    assert judge(inventory(on_disk(20, finite=False)), LogSide()).status == "unsafe"


@pytest.mark.parametrize(("finite", "iteration"), [(True, 20), (None, 10)])
def test_nan_in_the_logs_counts_where_the_weights_were_not_read(finite: bool | None, iteration: int) -> None:
    disk = inventory(on_disk(10, finite=finite), on_disk(20, finite=finite))
    assert judge(disk, LogSide(suspicions=(Suspicion("nan", 18),))).iteration == iteration


def test_suspicion_makes_even_the_older_one_unsafe_but_names_it() -> None:
    answer = judge(
        inventory(on_disk(10), on_disk(20)), LogSide(suspicions=(Suspicion("silent", 15, why="silent corruption"),))
    )
    assert (answer.status, answer.iteration) == ("unsafe", 10)
    assert said(answer, "silent corruption")
    assert (
        judge(inventory(on_disk(10)), LogSide(suspicions=(Suspicion("silent", 15, why="silent corruption"),))).status
        == "safe"
    )
    assert (
        judge(inventory(on_disk(20)), LogSide(suspicions=(Suspicion("silent", 15, why="silent corruption"),))).status
        == "unsafe"
    )


def test_an_unconfirmed_save_is_passed_over_for_a_confirmed_one() -> None:
    logs = LogSide(saves=(*saved(10), Save(20, started=True)), last_step=25)
    answer = judge(inventory(on_disk(10), on_disk(20)), logs)
    assert (answer.status, answer.iteration) == ("safe", 10)
    alone = judge(inventory(on_disk(20)), logs)
    assert (alone.status, alone.iteration) == ("safe", 20)
    assert said(alone, "check it deeply")


def test_a_save_that_left_nothing_is_a_candidate_all_the_same() -> None:
    answer = judge(inventory(on_disk(10)), LogSide(saves=(*saved(10), Save(20, "/ckpt", started=True))))
    assert (answer.status, answer.iteration) == ("safe", 10)
    assert (answer.candidates[0].iteration, answer.candidates[0].complete) == (20, False)


def test_weights_alone_do_not_outrank_a_full_checkpoint() -> None:
    final = replace(on_disk(99), layout="safetensors", path="model.safetensors")
    assert judge(inventory(on_disk(10), final), LogSide()).iteration == 10
    assert judge(inventory(final), LogSide()).iteration == 99


def test_an_empty_directory() -> None:
    assert judge(inventory(), LogSide()).status == "no-checkpoint"
    elsewhere = judge(inventory(), LogSide(saves=saved(10)))
    assert (elsewhere.status, elsewhere.iteration) == ("unknown", 10)
    assert judge(inventory(), LogSide(saves=(Save(10, started=True, failed=True),))).status == "unsafe"


def test_the_fixture_with_nan() -> None:
    answer = judge(
        scan(FIXTURES / "megatron_legacy"),
        LogSide(saves=saved(10, 20), suspicions=(Suspicion("nan", 18),), last_step=22),
    )
    assert (answer.status, answer.iteration) == ("safe", 10)
    assert answer.path == str(FIXTURES / "megatron_legacy" / "iter_0000010")
    assert said(answer, "a plain relaunch goes wrong")


# only the logs


def test_finished_saves() -> None:
    answer = judge(None, LogSide(saves=saved(10, 20), last_step=24))
    assert (answer.status, answer.iteration, answer.path) == ("safe", 20, "/ckpt/iter_0000020")
    assert said(answer, "the files were not looked at")


@pytest.mark.parametrize(
    "save",
    [
        Save(20, started=True),
        Save(20, started=True, scheduled_async=True),
        Save(20, started=True, failed=True),
        Save(20, started=True, finished=True, failed=True),
    ],
)
def test_unfinished_saves(save: Save) -> None:
    assert judge(None, LogSide(saves=(save,), last_step=20)).status == "unsafe"
    after = judge(None, LogSide(saves=(*saved(10), save), last_step=20))
    assert (after.status, after.iteration) == ("safe", 10)


def test_without_lines_for_the_end_going_on_is_the_confirmation() -> None:
    logs = LogSide(saves=(Save(100, started=True), Save(200, started=True)), last_step=280)
    assert judge(None, logs).iteration == 200
    assert judge(None, replace(logs, last_step=200)).iteration == 100
    scheduled = (Save(100, started=True), Save(200, started=True, scheduled_async=True))
    assert judge(None, replace(logs, saves=scheduled)).iteration == 100


def test_where_ends_are_printed_a_missing_one_counts() -> None:
    logs = LogSide(saves=(*saved(100), Save(200, started=True)), last_step=280)
    assert judge(None, logs).iteration == 100


def test_lines_of_one_save_are_joined() -> None:
    lines = (Save(10, started=True), Save(10, "/ckpt", scheduled_async=True), Save(10, finished=True))
    answer = judge(None, LogSide(saves=lines))
    assert (answer.status, answer.path, len(answer.candidates)) == ("safe", "/ckpt", 1)


def test_the_step_in_a_path() -> None:
    answer = judge(None, LogSide(saves=(Save(path="/out/checkpoint-4000/", started=True),), last_step=4180))
    assert (answer.status, answer.iteration) == ("safe", 4000)


def test_saves_known_by_path_alone() -> None:
    first, second = Save(path="/out/a.ckpt", started=True), Save(path="/out/b.ckpt", started=True)
    answer = judge(None, LogSide(saves=(first, second)))
    assert (answer.status, answer.path) == ("safe", "/out/a.ckpt")
    assert judge(None, LogSide(saves=(first,))).status == "unsafe"


def test_nan_in_the_logs() -> None:
    logs = LogSide(saves=saved(10, 20), suspicions=(Suspicion("nan", 18),))
    assert judge(None, logs).iteration == 10
    assert judge(None, replace(logs, suspicions=(Suspicion("nan", 5),))).status == "unsafe"
    assert (
        judge(None, LogSide(saves=(Save(path="/out/a.ckpt", finished=True),), suspicions=(Suspicion("nan", 5),))).status
        == "unknown"
    )


def test_suspicion_in_the_logs() -> None:
    logs = LogSide(saves=saved(10, 20), suspicions=(Suspicion("silent", 18, why="silent corruption"),))
    assert (judge(None, logs).status, judge(None, logs).iteration) == ("unsafe", 10)
    assert judge(None, replace(logs, suspicions=(Suspicion("silent", 21, why="silent corruption"),))).status == "safe"


def test_storage_errors_with_every_save_reported_as_finished() -> None:
    logs = LogSide(saves=saved(10, 20), storage_errors_during_save=True)
    assert (judge(None, logs).status, judge(None, logs).iteration) == ("safe", 10)
    assert judge(None, replace(logs, saves=saved(10))).status == "unknown"
    hit = (*saved(10), Save(20, started=True))
    assert judge(None, replace(logs, saves=hit)).iteration == 10


def test_a_checkpoint_the_job_itself_loaded() -> None:
    answer = judge(None, LogSide(loads=(Load(50, "/ckpt/iter_0000050"),)))
    assert (answer.status, answer.iteration) == ("safe", 50)
    failed = LogSide(saves=saved(40, 50), loads=(Load(50, "/ckpt/iter_0000050", failed=True),))
    assert judge(None, failed).iteration == 40
    by_path = (Save(path="/out/a.ckpt", finished=True), Save(path="/out/b.ckpt", finished=True))
    assert judge(None, LogSide(saves=by_path, loads=(Load(path="/out/b.ckpt", failed=True),))).path == "/out/a.ckpt"


@pytest.mark.parametrize(
    ("logs", "status"),
    [
        (LogSide(), "unknown"),
        (LogSide(last_step=60), "unknown"),
        (LogSide(nothing_saved="it failed during start-up"), "no-checkpoint"),
        (LogSide(started_from_scratch_after_restart=True), "no-checkpoint"),
        (LogSide(last_step=63, save_interval=1000), "no-checkpoint"),
        (LogSide(last_step=1063, save_interval=1000), "unknown"),
    ],
)
def test_nothing_announced(logs: LogSide, status: str) -> None:
    answer = judge(None, logs)
    assert answer.status == status
    assert answer.reasons


def test_a_save_that_states_nothing_is_placed_by_the_step_before_it() -> None:
    bare = Save(started=True, near_step=50)
    answer = judge(None, LogSide(saves=(bare,), last_step=50))
    assert (answer.status, answer.iteration, answer.path) == ("unsafe", None, None)
    assert answer.reasons[0] == "the save after step 50 was begun and never finished"
    assert said(answer, "no older one is in these logs")
    ended = Save(finished=True, near_step=40)
    assert len(judge(None, LogSide(saves=(ended, Save(started=True, near_step=40), bare))).candidates) == 2


def test_no_reason_speaks_of_none() -> None:
    for save in (Save(started=True), Save(scheduled_async=True), Save(failed=True), Save(7, started=True)):
        assert not said(judge(None, LogSide(saves=(save,), last_step=7)), "None")


def test_why_the_newer_ones_are_passed_over() -> None:
    answer = judge(None, LogSide(saves=(*saved(10), Save(20, "/ckpt", started=True)), last_step=20))
    assert answer.iteration == 10
    assert "newer: the save of step 20 was begun and never finished" in answer.reasons


def test_the_reason_of_a_doubt_is_told() -> None:
    logs = LogSide(saves=saved(10, 20), suspicions=(Suspicion("silent", 18, why="Xid 64 on gpu-a017"),))
    answer = judge(None, logs)
    assert (answer.status, answer.iteration) == ("unsafe", 10)
    assert said(answer, "Xid 64 on gpu-a017")


def test_a_caution_does_not_change_the_answer() -> None:
    answer = judge(None, LogSide(saves=saved(10), cautions=("an error without a time",)))
    assert (answer.status, answer.reasons[-1]) == ("safe", "an error without a time")


def test_a_checkpoint_that_was_refused_is_still_there() -> None:
    answer = judge(None, LogSide(loads=(Load(40, "/ckpt/global_step40", refused=True),)))
    assert (answer.status, answer.iteration) == ("safe", 40)
    assert said(answer, "another topology")


def test_runs_that_fail_again_from_the_same_step() -> None:
    logs = LogSide(loads=(Load(50), Load(50)), suspicions=(Suspicion("nan", 53),), relapsed=frozenset({50}))
    assert judge(None, logs).status == "unsafe"
    assert judge(None, replace(logs, saves=saved(40))).iteration == 40


# a listing among the logs


@pytest.mark.parametrize(
    ("text", "kib", "size"),
    [
        ("187170816", False, 187170816),
        ("1.5G", False, 3 << 29),
        ("12K", True, 12288),
        ("12", True, 12288),
        ("x", False, None),
    ],
)
def test_size_of(text: str, kib: bool, size: int | None) -> None:
    assert size_of(text, kib=kib) == size


def test_a_short_file_among_its_siblings() -> None:
    listed = compare([("m_epoch_8.ckpt", 1000), ("m_epoch_11.ckpt", 700), ("m_epoch_9.ckpt", 999)])
    assert [(one.path, one.whole) for one in listed] == [
        ("m_epoch_8.ckpt", True),
        ("m_epoch_9.ckpt", True),
        ("m_epoch_11.ckpt", False),
    ]


def test_files_of_steps_are_compared_with_the_same_file_of_other_steps() -> None:
    first, second = "out/global_step10", "out/global_step20"
    sizes = [(first, 500, 90), (second, 500, 40)]
    files = [(f"{d}/{name}", size) for d, a, b in sizes for name, size in (("a.pt", a), ("b.pt", b))]
    assert [(one.path, one.whole) for one in compare(files)] == [(first, True), (second, False)]


@pytest.mark.parametrize("names", [["m_epoch_8.ckpt"], ["__0_0.distcp", "__1_0.distcp"], ["last.ckpt", "best.ckpt"]])
def test_nothing_to_compare(names: list[str]) -> None:
    assert not [one for one in compare((name, 10 + n) for n, name in enumerate(names)) if one.whole is not None]


def test_the_last_whole_file_of_a_listing() -> None:
    listed = compare([("m_epoch_8.ckpt", 1000), ("m_epoch_11.ckpt", 700)])
    begun = Save(path="/out/m_epoch_11.ckpt", started=True)
    answer = judge(None, LogSide(saves=(begun,), listed=tuple(listed)))
    assert (answer.status, answer.path) == ("safe", "m_epoch_8.ckpt")
    assert [(c.path, c.complete) for c in answer.candidates] == [
        ("/out/m_epoch_11.ckpt", False),
        ("m_epoch_8.ckpt", True),
    ]
    assert said(answer, "700 bytes where others of its kind have 1,000")


def test_a_listing_confirms_a_save_without_an_end() -> None:
    whole = Listed("iter_20.pt", True, "a listing shows it in full size")
    assert judge(None, LogSide(saves=(Save(20, started=True),), listed=(whole,))).iteration == 20
