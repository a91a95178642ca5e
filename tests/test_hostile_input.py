"""Input that nobody should write: numbers, years, nesting, archives, links, names and lines beyond any sense.

One bad line costs that line, never the diagnosis.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import pytest
import zstandard

from correlator.cli import main
from correlator.errors import UsageError
from correlator.events import Found, Pattern
from correlator.hostlist import expand_hostlist, expand_ranges
from correlator.ingest import ingest
from correlator.ingest.matching import PATTERN_TEXT, Matcher
from correlator.pipeline import Diagnosis, diagnose
from correlator.plugins import load_parsers
from correlator.reading import DamagedArchive, iter_bytes
from correlator.untrusted import MOST_RANKS, read_json, read_literal, read_number, shorten_runs

XID = "2024-05-01T10:00:00 gpu-a017 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=1, GPU has fallen off the bus.\n"
HUGE = ("99999999999", str(2**31), str(2**63), "1" + "0" * 30, "9" * 400, "9" * 5000)


def diagnosis(folder: Path, text: str) -> Diagnosis:
    (folder / "job.log").write_text(text)
    return diagnose(folder)


# --- numbers and years -----------------------------------------------------------------------------------------------

NUMBERED = (
    "[rank{0}]: RuntimeError: CUDA error: out of memory",
    "[rank: {0}] RuntimeError: CUDA error",
    "rank {0}: RuntimeError: CUDA error",
    "[default{0}]: RuntimeError: CUDA error",
    "{0}: RuntimeError: CUDA error",
    "(worker pid={0}, rank={0}) RuntimeError: CUDA error",
    '<stdout rank="{0}">RuntimeError: CUDA error</stdout>',
    '{{"MESSAGE": "NCCL WARN x", "_HOSTNAME": "h1", "_PID": "{0}", "__REALTIME_TIMESTAMP": "{0}", "rank": {0}}}',
    '{{"stream": {{"pod": "p"}}, "values": [["{0}", "RuntimeError: CUDA error"]]}}',
    "message repeated {0} times: [ RuntimeError: CUDA error]",
    "[Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={0}, OpType=ALLREDUCE, NumelIn={0}, "
    "NumelOut={0}, Timeout(ms)={0}) ran for {0} milliseconds before timing out.",
    "h1:{0}:{0} [{0}] NCCL INFO comm 0x5 rank {0} nranks {0} cudaDev {0} nvmlDev {0} busId 1000 commId 0x1 - Init COMPLETE",
    "srun: error: gpu-a018: task {0}: Exited with exit code {0}",
    "srun: error: node[0-{0}]: tasks 0-{0}: Killed",
    "[{0}.123456] NVRM: Xid (PCI:0000:3b:00): {0}, pid={0}, name=python, GPU has fallen off the bus.",
    "using world size: {0}, data-parallel size: {0}, tensor-model-parallel size: 1, pipeline-model-parallel size: 1",
    "failed (exitcode: {0}) local_rank: {0} (pid: {0}) of binary: python",
    "  iteration {0}/ {0} | elapsed time per iteration (ms): {0}.1 | lm loss: 1.0E+00 |",
)


@pytest.mark.parametrize("number", HUGE, ids=lambda n: f"{len(n)}digits")
def test_a_number_that_fits_nowhere_is_no_claim(tmp_path: Path, number: str) -> None:
    found = diagnosis(tmp_path, "".join(line.format(number) + "\n" for line in NUMBERED) + XID)
    assert found.table.num_rows > 3
    assert "xid-79" in found.table["signature"].to_pylist()
    assert max(found.topology.ranks, default=0) < MOST_RANKS
    assert (found.job.world_size or 0) <= MOST_RANKS
    assert found.verdict.signature == "xid-79" or number not in str(found.verdict)


def test_a_world_that_no_job_has_is_told_and_not_built(tmp_path: Path) -> None:
    size = "using world size: 1000000000, data-parallel size: 1, tensor-model-parallel size: 1, pipeline-model-parallel size: 1\n"
    found = diagnosis(tmp_path, size + "[rank3]: RuntimeError: CUDA error\n")
    assert len(found.topology.ranks) == 4
    assert any("1000000000" in said for said in found.topology.contradictions)


@pytest.mark.parametrize("text", ["²", "", "-1", "٣", "9" * 20, "9" * 5000, "1.5"])
def test_what_is_no_plain_number(text: str) -> None:
    assert read_number(text) is None


@pytest.mark.parametrize("text", [f"0-{'9' * 5000}", f"{'9' * 5000}", "0-" + str(2**31), ",".join(["0-199998"] * 50)])
def test_lists_beyond_any_size(text: str) -> None:
    assert len(expand_ranges(text)) <= MOST_RANKS
    assert expand_hostlist(f"n[{text}]") == [f"n[{text}]"]


@pytest.mark.parametrize("year", ["0000", "0001", "1677", "1969", "2200", "2262", "9999"])
def test_a_year_of_no_clock_is_no_time(tmp_path: Path, year: str) -> None:
    found = diagnosis(tmp_path, f"{year}-05-01T10:00:00Z [rank3]: RuntimeError: CUDA error\n")
    assert found.table["timestamp"].to_pylist() == [None]
    assert found.initiator.ranks == [3]


# --- nesting, and parsers that raise ---------------------------------------------------------------------------------

DEEP = ('{"message":' * 50_000 + "1" + "}" * 50_000, "[" * 200_000, '{"log":' * 9000)


@pytest.mark.parametrize("text", DEEP, ids=["object", "array", "torn"])
def test_deep_nesting_is_no_value(tmp_path: Path, text: str) -> None:
    assert read_json(text) is None
    assert read_literal(text) is None
    path = tmp_path / "none_x/attempt_0/0/error.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert diagnosis(tmp_path, f"{text}\nRunning with args: {text}\n{XID}").verdict.signature == "xid-79"


def _raise(lines: Sequence[str]) -> Sequence[Found]:
    raise IndexError(f"no place for {lines[0]}")


def test_a_parser_that_raises_costs_its_lines_and_is_told(tmp_path: Path) -> None:
    broken = Pattern("test.broken", ("BOOM",), block=_raise)
    sound = Pattern("test.sound", ("BOOM",), regex="BOOM (?P<seq>[0-9]+)")
    (tmp_path / "a.log").write_text("quiet\nBOOM 1\nquiet\nBOOM 2\n")
    result = ingest(tmp_path, patterns=[broken, sound])
    assert result.events["seq"].to_pylist() == [1, 2]
    assert [(w.name, w.why) for w in result.warnings] == [
        ("a.log", "parser given failed on line 2 and 1 more, which it left unread: IndexError: no place for BOOM 1")
    ]


# --- damaged archives ------------------------------------------------------------------------------------------------

PACK: dict[str, Callable[[bytes], bytes]] = {
    "gz": gzip.compress,
    "bz2": bz2.compress,
    "xz": partial(lzma.compress, preset=0),
    "zst": zstandard.ZstdCompressor(write_checksum=True).compress,
}
NOISE = "".join(f"2024-05-01T09:00:00 gpu-a017 app: {os.urandom(60).hex()}\n" for _ in range(12_000))


@pytest.mark.parametrize("kind", PACK)
@pytest.mark.parametrize("damage", ["cut", "flipped", "garbage", "none", "zeros"])
def test_all_that_comes_before_the_damage_is_read(tmp_path: Path, kind: str, damage: str) -> None:
    content = (XID + NOISE).encode()
    packed = bytearray(PACK[kind](content) + PACK[kind](b"more"))
    kept = 0.45  # bzip2 has blocks of 900 kB
    if damage == "cut":
        del packed[len(packed) * 3 // 4 :]
    elif damage == "flipped":
        at = len(packed) * 3 // 4
        packed[at : at + 64] = bytes(byte ^ 255 for byte in packed[at : at + 64])
    else:
        packed += {"garbage": b"garbage", "none": b"", "zeros": bytes(512)}[damage]
        kept = 1
    path = tmp_path / "a.log"
    path.write_bytes(packed)
    got, error = b"", ""
    try:
        for piece in iter_bytes(path, kind):
            got += piece
    except DamagedArchive as fault:
        error = str(fault)
    assert bool(error) is (damage in ("cut", "flipped", "garbage"))
    assert len(got) >= kept * len(content)
    good = int(kept * len(content)) if kept < 1 else len(content)
    assert got[:good] == content[:good]


# --- places ----------------------------------------------------------------------------------------------------------


def test_links_out_of_the_folder_are_named_and_not_followed(tmp_path: Path) -> None:
    logs, other = tmp_path / "logs", tmp_path / "other"
    (other / "deep").mkdir(parents=True)
    (other / "deep/b.log").write_text(XID)
    logs.mkdir()
    (logs / "a.log").write_text(XID)
    for name, target in {"root": "/", "other": str(other), "up": "..", "status": "/proc/self/status"}.items():
        (logs / name).symlink_to(target)
    (logs / "file.log").symlink_to(other / "deep/b.log")
    found = diagnose(logs)
    assert sorted(f.name for f in found.facts.ingested.files) == ["a.log", "file.log"]
    assert {s.name for s in found.facts.ingested.skipped} == {"root", "other", "up", "status"}


@pytest.mark.parametrize("path", ["", " ", "nope", "a" * 5000, "/proc/self", "a\0b"])
def test_places_that_cannot_be_read(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", path]) == 2
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    assert len(said) < 400
    with pytest.raises(UsageError):
        ingest(path)


@pytest.mark.parametrize("host", ["--help", "-x", "..", "$(id)", "gpu;rm", "`id`"])
def test_what_is_no_host_name_is_no_node(tmp_path: Path, host: str) -> None:
    found = diagnosis(tmp_path, XID.replace("gpu-a017", host) + f"srun: error: {host}: task 3: Killed\n")
    assert host not in [*found.initiator.nodes, *found.topology.nodes, *found.topology.collected_nodes]
    assert not any(host in (action.command or "") for action in found.document.actions)


# --- long lines ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [100, 30_000, 70_000, 3_000_000])
@pytest.mark.parametrize("gap", [" ", ""])
def test_an_event_behind_a_long_run_is_found(tmp_path: Path, length: int, gap: str) -> None:
    found = diagnosis(tmp_path, "x" * length + gap + XID.partition("kernel: ")[2])
    assert found.table["signature"].to_pylist() == ["xid-79"]


FILLERS = ("a", "a-", "a_", "a.", "a ", "a: ", "1 ", "1:", " ", "[", "(", "'", "x[1] ", "rank ", "9")


def _seconds(entry, texts, run) -> float:
    """Processor time; the best of three where the first is long, since a garbage collection may fall into one."""
    taken = []
    while not taken or (taken[-1] > 0.3 and len(taken) < 3):
        started = time.process_time()
        for text in texts:
            if entry.pattern.block is not None:
                entry.read_block([text, run, run] if entry.pattern.block_lines else [text])
            else:
                entry.matches(text)
        taken.append(time.process_time() - started)
    return min(taken)


def test_no_pattern_takes_long_on_a_long_line() -> None:
    """Each pattern meets a literal of its own before and behind 8 kB of each filler; block parsers also further lines.

    A search that is quadratic in the line's length takes seconds here, a linear one less than a millisecond.
    """
    slow = []
    for entry in Matcher(load_parsers()).entries:
        literal = entry.pattern.literals[0]
        for filler in FILLERS:
            run = shorten_runs((filler * 8_000)[:8_000])  # as all lines are that patterns get
            if _seconds(entry, (run + literal, literal + run), run) > 0.3:
                slow.append((entry.pattern.event, filler, literal))
    assert slow == []
    assert PATTERN_TEXT <= 16_384


def test_a_value_that_python_warns_of_is_no_message_to_the_user() -> None:
    assert read_literal("[1or 2]") is None  # pytest raises on warnings
