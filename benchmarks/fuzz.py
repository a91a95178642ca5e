"""Feeds the reader damaged inputs until told to stop, and prints how many it survived.

    python benchmarks/fuzz.py --inputs 1000000 [--seconds 3600] [--seed 0]

An input is a line through envelopes and stamps, a line of a log through all parsers, a report of many lines, an
archive, a folder of logs through the whole diagnosis, or a checkpoint. It fails when one raises, takes longer than 10 s
of processor time, or memory grows; the seed that made it is printed, and `--replay TARGET SEED` runs it alone. The dev
dependencies must be installed.
"""

from __future__ import annotations

import argparse
import faulthandler
import random
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import mutations

#: Lines of one log: the reader's fixed cost is shared by them.
LINES = 500
#: Processor time that one check may take, so that a busy machine is no failure; a loop inside C ends the run after
#: ``_PATIENCE`` times as long by the clock.
HANG_S, _PATIENCE = 10, 60
#: What caches may take after the first thousandth of a run, in MB.
GROWTH_MB = 300


def _line(seed: int, folder: Path) -> int:
    mutations.check_line(mutations.line(random.Random(seed)))
    return 1


def _log(seed: int, folder: Path) -> int:
    rng = random.Random(seed)
    lines = [mutations.line(rng) for _ in range(LINES)]
    mutations.check_log(b"\n".join(lines), folder)
    return LINES


def _archive(seed: int, folder: Path) -> int:
    mutations.check_archive(mutations.archive(random.Random(seed)), folder)
    return 1


def _document(seed: int, folder: Path) -> int:
    mutations.check_log(mutations.document(random.Random(seed)), folder)
    return 1


def _diagnosis(seed: int, folder: Path) -> int:
    mutations.check_diagnosis(random.Random(seed), folder)
    return 1


def _checkpoint(seed: int, folder: Path) -> int:
    mutations.check_checkpoint(random.Random(seed), folder)
    return 1


#: What is fuzzed, and how many times in one round.
TARGETS: dict[str, tuple[Callable[[int, Path], int], int]] = {
    "line": (_line, 500),
    "log": (_log, 1),
    "archive": (_archive, 20),
    "document": (_document, 5),
    "diagnosis": (_diagnosis, 1),
    "checkpoint": (_checkpoint, 5),
}


def main() -> int:
    """Runs rounds over all targets until one of the limits is reached; 1 if anything failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--replay", nargs=2, metavar=("TARGET", "SEED"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if options.replay:
            TARGETS[options.replay[0]][0](int(options.replay[1]), Path(name))
            return 0
        return _run(options.inputs, options.seconds, options.seed, Path(name))


def _hang(number: int, frame: object) -> None:
    raise TimeoutError(f"more than {HANG_S} s of processor time")


def _run(inputs: int, seconds: float, seed: int, folder: Path) -> int:
    counts = dict.fromkeys(TARGETS, 0)
    failures: dict[str, str] = {}
    begun = time.monotonic()
    settled_mb: float | None = None
    number = seed << 40
    signal.signal(signal.SIGVTALRM, _hang)
    while sum(counts.values()) < inputs and time.monotonic() - begun < seconds:
        for target, (check, times) in TARGETS.items():
            for _ in range(times):
                number += 1
                faulthandler.dump_traceback_later(HANG_S * _PATIENCE, exit=True)
                signal.setitimer(signal.ITIMER_VIRTUAL, HANG_S)
                try:
                    counts[target] += check(number, folder)
                except Exception as error:
                    place = traceback.extract_tb(error.__traceback__)[-1]
                    cause = f"{type(error).__name__} at {Path(place.filename).name}:{place.lineno}"
                    if cause not in failures:
                        failures[cause] = f"--replay {target} {number}: {error}"
                        print(f"FAILED {cause}  {failures[cause]}"[:400], flush=True)
                signal.setitimer(signal.ITIMER_VIRTUAL, 0)
                faulthandler.cancel_dump_traceback_later()
        if settled_mb is None and sum(counts.values()) > 20_000:
            settled_mb = _memory_mb()
    took = time.monotonic() - begun
    grown = 0.0 if settled_mb is None else _memory_mb() - settled_mb
    reached = ", ".join(f"{count:,} {target}" for target, count in counts.items())
    total = f"{sum(counts.values()):,} inputs ({reached}) in {took:.0f} s"
    print(f"{total}, {len(failures)} kinds of failure, +{grown:.0f} MB")
    return 1 if failures or grown > GROWTH_MB else 0


def _memory_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    sys.exit(main())
