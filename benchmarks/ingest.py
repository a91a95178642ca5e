"""How fast the logs are read, as ratios to ripgrep with the same literals and to cat.

    python benchmarks/ingest.py [--bytes 100M] [--files 64] [--rounds 3] [--engine hyperscan] [--data FOLDER]

Runs are interleaved, so that a busy machine slows all alike, and the median of each program is compared: wall time, CPU
time (user and system, workers included) and peak resident memory of the largest process (no less than this script's
own, which forks it). Start-up counts. ripgrep is Debian's package: ``apt-get install ripgrep`` (the Python package of
that name builds from source). ``--engine`` takes faster engines away: ``ahocorasick`` runs without hyperscan,
``polars`` without both.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from generate import generate, parse_size

from correlator.ingest.matching import Matcher
from correlator.plugins import load_parsers
from correlator.signatures import load_signatures, own_patterns

#: Modules to hide so that an engine is the fastest one left.
_HIDDEN = {"hyperscan": (), "ahocorasick": ("hyperscan",), "polars": ("hyperscan", "ahocorasick_rs")}


@dataclass(frozen=True)
class Run:
    """What one run took: seconds, seconds, MB."""

    wall: float
    cpu: float
    memory: float


def measure(command: list[str], environment: dict[str, str]) -> Run:
    """One run of a command, its output thrown away."""
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{command[0]} ended with {process.returncode}")
    cpu, memory = used.ru_utime + used.ru_stime, used.ru_maxrss
    # Workers are children of a server that the command does not wait for; this process has adopted it.
    with contextlib.suppress(ChildProcessError):
        while True:
            _, _, used = os.wait4(-1, 0)
            cpu, memory = cpu + used.ru_utime + used.ru_stime, max(memory, used.ru_maxrss)
    return Run(wall, cpu, memory / 1024)


def adopt_orphans() -> None:
    """Have processes whose parent has ended become children of this one (Linux, prctl(2))."""
    set_child_subreaper = 36
    if ctypes.CDLL(None, use_errno=True).prctl(set_child_subreaper, 1, 0, 0, 0):
        raise SystemExit("CPU time of workers cannot be counted here: prctl failed")


def literals() -> list[bytes]:
    """What the byte scan looks for."""
    matcher = Matcher(load_parsers(), own_patterns(load_signatures()))
    return sorted({*matcher.dense_literals, *matcher.sparse_literals})


def hide(modules: tuple[str, ...], folder: Path) -> dict[str, str]:
    """An environment in which importing these modules fails, in worker processes too."""
    folder.mkdir()
    for name in modules:
        (folder / f"{name}.py").write_text("raise ImportError\n", encoding="utf-8")
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))}


def compare(data: Path, work: Path, rounds: int, engine: str) -> dict[str, list[Run]]:
    """Interleaved runs of all programs over ``data``, after one of each that is thrown away."""
    rg = shutil.which("rg")
    if rg is None:
        raise SystemExit("ripgrep is missing: apt-get install ripgrep")
    wanted = work / "literals"
    wanted.write_bytes(b"\n".join(literals()) + b"\n")
    files = sorted(str(path) for path in data.rglob("*") if path.is_file())
    correlator = [sys.executable, "-m", "correlator"]
    commands = {
        "ingest": [*correlator, "ingest", str(data), "-o", str(work / "events.parquet")],
        "diagnose": [*correlator, "diagnose", str(data)],
        "rg": [rg, "-a", "-n", "-b", "-F", "-f", str(wanted), str(data)],
        "cat": ["cat", *files],
    }
    environment = hide(_HIDDEN[engine], work / "hidden")
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for number in range(rounds + 1):
        for name, command in commands.items():
            run = measure(command, environment)
            if number:
                runs[name].append(run)
    return runs


def report(runs: dict[str, list[Run]]) -> str:
    """The table of medians and ratios."""
    middle = {
        name: Run(*(statistics.median(getattr(run, part) for run in of) for part in ("wall", "cpu", "memory")))
        for name, of in runs.items()
    }
    lines = [f"{'':10}{'wall s':>9}{'CPU s':>9}{'MB':>8}{'wall/rg':>9}{'CPU/rg':>9}{'wall/cat':>10}"]
    rg, cat = middle["rg"], middle["cat"]
    for name, run in middle.items():
        lines.append(
            f"{name:10}{run.wall:9.2f}{run.cpu:9.2f}{run.memory:8.0f}"
            f"{run.wall / rg.wall:9.2f}{run.cpu / rg.cpu:9.2f}{run.wall / cat.wall:10.2f}"
        )
    return "\n".join(lines)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=parse_size, default="100M")
    parser.add_argument("--files", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--engine", choices=_HIDDEN, default="hyperscan")
    parser.add_argument("--data", type=Path, help="a folder of logs to read instead of generated ones")
    given = parser.parse_args()
    adopt_orphans()
    with tempfile.TemporaryDirectory() as name:
        data = given.data or Path(name) / "data"
        if given.data is None:
            generate(data, given.bytes, given.files)
        work = Path(name) / "work"
        work.mkdir()
        load = os.getloadavg()[0]
        print(report(compare(data, work, given.rounds, given.engine)))
        print(f"{os.cpu_count()} processors, load {load:.1f} before and {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()
