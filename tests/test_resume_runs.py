"""Where to resume when a job ran more than once: which saves of which run hold what went wrong in one of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from joblogs import HOSTS, arguments, clock, diagnose, iterations, nccl_init, raises, save_finished, save_started, xid

from correlator.attribution.runs import Run, spread
from correlator.diagnosis import Resume

Lines = list[str]
DIED = raises("RuntimeError: the job stops here", rank=0)
NODE, BUS = HOSTS[0], "0000:3b:00"
ARGUMENTS = arguments(world=1)


def run(first: int, last: int, at: float, saves: Iterable[int] = (), change: Callable[[str], str] = str) -> Lines:
    """Arguments, the load of the step before the first, step lines and whole saves; ``at`` as in ``joblogs``."""
    lines = list(ARGUMENTS)
    if first > 1:
        loaded = f"successfully loaded checkpoint from /mnt/run7 [ t 1/1, p 1/1 ] at iteration {first - 1}"
        lines += [f"  [{clock(at)}.000000] {loaded}"]
    for number, line in enumerate(iterations(last, first=first, at=at), first):
        lines.append(change(line))
        if number in saves:
            over = at + number - first + 1
            both = (*save_started(number, over + 0.3), *save_finished(number, over + 0.5))
            lines += [text.replace("/mnt/ckpt", "/mnt/run7") for text in both]
    return lines


def losing(loss: str, steps: range) -> Callable[[str], str]:
    """Step lines of these steps get another loss; ``nan`` leaves it out, as Megatron does."""

    def change(line: str) -> str:
        step = int(line.partition("iteration ")[2].partition("/")[0])
        if step not in steps:
            return line
        if loss == "nan":
            return line.replace(" lm loss: 4.483864E+00 |", "").replace("nan iterations:   0", "nan iterations:   1")
        return line.replace("4.483864E+00", loss)

    return change


def resume(folder: Path, *lines: Lines, **others: Lines) -> Resume:
    """Of one log of the job, and of logs of its node."""
    files = {f"{NODE}/train.log": [text for part in (*lines, DIED) for text in part]}
    return diagnose(folder, files | {f"{NODE}/{name}.log": text for name, text in others.items()}).resume


def answer(found: Resume) -> tuple[str, int | None]:
    return found.status, found.iteration


def told(found: Resume, text: str) -> bool:
    return any(text in reason for reason in found.reasons)


FIRST = run(1, 33, 0, {10, 20, 30})


def error(at: float, number: int = 95) -> Lines:
    return xid(at, NODE, BUS, number, "an event")


# a memory error in one run, and the runs after it


def test_what_a_run_saved_after_the_error_stays_in_doubt(tmp_path: Path) -> None:
    found = resume(tmp_path, FIRST, run(21, 28, 100), kernel=error(25))
    assert answer(found) == ("unsafe", 20)
    assert told(found, "step 30: it was saved at step 30, its numbers are under suspicion")


def test_a_run_that_went_on_from_a_doubtful_save_hands_it_on(tmp_path: Path) -> None:
    assert answer(resume(tmp_path, FIRST, run(31, 45, 100, {40}), kernel=error(25))) == ("unsafe", 20)


def test_a_run_that_went_on_from_an_older_one_writes_them_anew(tmp_path: Path) -> None:
    assert answer(resume(tmp_path, FIRST, run(21, 45, 100, {30, 40}), kernel=error(25))) == ("safe", 40)


@pytest.mark.parametrize("at", [50, -80_000])
def test_an_error_between_two_runs_or_long_before(at: float, tmp_path: Path) -> None:
    first = run(1, 24, 0, {10, 20})
    assert answer(resume(tmp_path, first, run(21, 45, 100, {30, 40}), kernel=error(at))) == ("safe", 40)


def test_a_calculation_that_did_not_repeat_says_its_step(tmp_path: Path) -> None:
    what = "First rerun: unexpected result is not reproducible within the tolerance (1.5 vs 2.5)!"
    said = [f"[{clock(26)}] ERROR: Rank 0, node {NODE}, device 3, iteration #13: {what}"]
    assert answer(resume(tmp_path, run(1, 24, 0, {10, 20}), said)) == ("unsafe", 10)


# numbers that are none


def test_non_finite_numbers_of_a_run_that_was_left_behind(tmp_path: Path) -> None:
    first = run(1, 33, 0, {10, 20, 30}, losing("nan", range(25, 34)))
    assert answer(resume(tmp_path / "a", first, run(21, 24, 100))) == ("safe", 20)
    assert answer(resume(tmp_path / "b", first, run(21, 45, 100, {30, 40}))) == ("safe", 40)


# a resumed run that is not what it was


def test_a_run_that_goes_on_far_from_where_it_was(tmp_path: Path) -> None:
    astray = run(31, 45, 100, {40}, losing("1.09E+01", range(31, 46)))
    found = resume(tmp_path, run(1, 30, 0, {10, 20, 30}), astray)
    assert answer(found) == ("safe", 20)
    assert told(found, "step 30: it was saved at step 30")
    assert told(found, "has a loss of 10.9, where it was about 4.48 before")


def test_the_same_steps_with_another_loss(tmp_path: Path) -> None:
    away = run(31, 45, 100, {40}, losing("6.5E+00", range(31, 46)))
    found = resume(tmp_path, run(1, 39, 0, {10, 20, 30}), away)
    assert answer(found) == ("safe", 20)
    assert told(found, "has a loss of 6.5, where it was about 4.48 at the same steps")


@pytest.mark.parametrize("change", [losing("8.0E+00", range(31, 33)), losing("4.9E+00", range(31, 46)), str])
def test_a_bump_that_heals_and_a_small_difference_are_no_reason(change: Callable[[str], str], tmp_path: Path) -> None:
    first = run(1, 39, 0, {10, 20, 30})
    assert answer(resume(tmp_path, first, run(31, 45, 100, {40}, change))) == ("safe", 40)


def test_a_run_that_silently_began_anew(tmp_path: Path) -> None:
    found = resume(tmp_path, run(1, 55, 0, {20, 30, 40, 50}), run(1, 15, 100, {10}))
    assert answer(found) == ("safe", 50)
    (fresh,) = (one for one in found.candidates if one.iteration == 10)
    assert fresh.problems == [
        "it was saved at step 10 by a run that began from random weights: step 50 had been saved before "
        f"({NODE}/train.log:74)"
    ]


def test_a_run_that_began_anew_and_came_further_is_a_job_of_its_own(tmp_path: Path) -> None:
    assert answer(resume(tmp_path, run(1, 24, 0, {10, 20}), run(1, 45, 100, {10, 20, 30, 40}))) == ("safe", 40)


# a card that a test found faulty afterwards

CARD = nccl_init(NODE, 0, world=1, bus="3b000", gpu=3)
TRAINED = [*CARD, *run(1, 24, 0, {10, 20})]


def failing(name: str) -> Lines:
    return [f"| {name:25} | Fail - GPU: 3                                  |"]


def test_a_card_that_fails_a_test_later_with_no_sign_before(tmp_path: Path) -> None:
    found = resume(tmp_path, TRAINED, dcgm=failing("GPU Memory"))
    assert answer(found) == ("unsafe", None)
    assert told(found, "nothing tells since when it is faulty")


def test_its_first_sign_says_since_when(tmp_path: Path) -> None:
    found = resume(tmp_path, TRAINED, dcgm=failing("GPU Memory"), kernel=error(15, 63))
    assert answer(found) == ("unsafe", 10)


def test_a_card_that_failed_loudly_and_a_test_of_links_say_nothing_of_numbers(tmp_path: Path) -> None:
    assert answer(resume(tmp_path / "a", TRAINED, dcgm=failing("GPU Memory"), kernel=error(24.5, 79))) == ("safe", 20)
    assert answer(resume(tmp_path / "b", TRAINED, dcgm=failing("PCIe"))) == ("safe", 20)


def test_a_card_of_a_node_that_was_not_in_the_job(tmp_path: Path) -> None:
    files = {f"{NODE}/train.log": [*TRAINED, *DIED], f"{HOSTS[3]}/dcgm.log": failing("GPU Memory")}
    assert answer(diagnose(tmp_path, files).resume) == ("safe", 20)


# which saves one step spoils


@pytest.mark.parametrize(
    ("starts", "wrong", "expected"),
    [
        ([(0, 35)], (0, 25), [(25, None)]),
        ([(0, 35), (20, 28)], (0, 25), [(29, 35)]),
        ([(0, 35), (20, 60)], (0, 25), []),
        ([(0, 35), (30, 60)], (0, 25), [(25, 35), (30, None)]),
        ([(0, 35), (20, 28), (30, 60)], (0, 25), [(29, 35), (30, None)]),
        ([(0, 35), (20, 28)], (1, 25), [(25, None)]),
    ],
)
def test_spread(starts: list[tuple[int, int]], wrong: tuple[int, int], expected: list[tuple[int, int | None]]) -> None:
    runs = [Made(loaded, reach) for loaded, reach in starts]
    assert spread(runs, *wrong) == expected


class Made(Run):
    """A run of which only the ends matter."""

    reach = 0

    def __init__(self, loaded: int, reach: int) -> None:
        object.__setattr__(self, "loaded", loaded)
        object.__setattr__(self, "reach", reach)
