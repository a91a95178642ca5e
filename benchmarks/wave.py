"""How long the stages behind reading take for the collapse of a large job, and how much memory.

    python benchmarks/wave.py [--ranks 16384]

Prints CPU seconds of reading and of all stages behind it (topology, clocks, cascade, attribution), and the largest
resident memory in MiB.
"""

from __future__ import annotations

import argparse
import resource
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from waves import write_wave

from correlator import pipeline


def main() -> None:
    """Write the logs, diagnose them, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=16_384)
    ranks = parser.parse_args().ranks
    with tempfile.TemporaryDirectory() as folder:
        write_wave(Path(folder), ranks, guilty=ranks // 3)
        begun = time.process_time()
        read = pipeline.read_events(folder, workers=1)
        reading = time.process_time() - begun
        pipeline.read_events = lambda *_, **__: read
        begun = time.process_time()
        found = pipeline.diagnose(folder)
        judging = time.process_time() - begun
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    right = found.initiator.ranks == [ranks // 3]
    print(f"{ranks} ranks, {read.events.num_rows} rows: {'right' if right else 'wrong'} rank")
    print(f"reading {reading:.1f} s, all other stages {judging:.1f} s of CPU, {memory:.0f} MiB")


if __name__ == "__main__":
    main()
