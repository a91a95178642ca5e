"""Damaged and nonsensical inputs made of real ones, for the fuzz test and for ``benchmarks/fuzz.py``."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np
from packing import ARCHIVES, COMPRESS, link, tar

from correlator.checkpoints import scan
from correlator.containers.unpack import harmless_name
from correlator.diagnosis import to_json
from correlator.discovery import discover
from correlator.envelopes.file_context import JobContext, file_context
from correlator.envelopes.layouts import learn_layout
from correlator.envelopes.peel import peel
from correlator.errors import NothingReadable
from correlator.ingest import ingest
from correlator.pipeline import diagnose
from correlator.plugins import load_parsers
from correlator.timestamps import Clock, dated_stamps_ns, match_stamp

_FIXTURES = Path(__file__).parents[1] / "fixtures"

#: A log line is shorter; longer ones only cost time here.
_LONGEST = 4000

_STAMPS = (
    "2024-05-01 07:40:18,123", "2024-05-01T07:40:18.123456+02:00", "2024/05/01 07:40:18", "20240501-074018.345",
    "05/01/2024 07:40:18 AM", "24/05/01 07:40:18", "01.05.2024 07:40:18", "01/May/2024:07:40:18 +0000",
    "05-01 07:40:18", "1714542018.123456", "1714542018123456789", "May  1 07:40:18", "Wed May  1 07:40:18 CEST 2024",
    "Wed 2024-05-01 07:40:18 CEST", "Wed, 01 May 2024 07:40:18 +0000", "[123456.789012]", "07:40:18", "0501 07:40:18.1",
    "Feb 29 23:59:60", "Dec 31 23:59:59", "9999-12-31T23:59:59Z", "0000-00-00 00:00:00", "Wednesday 1st May 7:40pm 2024",
)  # fmt: skip
_ENVELOPES = (
    "{s} stderr F {t}", "{s} stdout P {t}", '{{"log":"{t}\\n","stream":"stderr","time":"{s}"}}',
    '{{"stream":{{"pod":"llm-worker-3"}},"values":[["1714542018123456789","{t}"]]}}',
    '{{"__REALTIME_TIMESTAMP":"1714542018123456","_HOSTNAME":"node012","MESSAGE":"{t}"}}',
    "llm-worker-3 pytorch {s} {t}", "[pod/llm-worker-3/pytorch] {t}", "[1,37]<stderr>:{t}", "37: {t}", "[rank9]: {t}",
    "[default3]:{t}", "gpu-a017: {t}", "{s} node012 kernel: {t}", "<6>[123456.789012] {t}", "<13>1 {s} node012 app 1 - - {t}",
    "(RayTrainWorker pid=4711, ip=10.0.0.7) {t}", "[{s}] {t}", "{s} ERROR {t}", "E0501 07:40:18.123456 4711 a.cc:12] {t}",
    "\x1b[31m{t}\x1b[0m", " 12%|#2   | 120/1000\r{t}", "message repeated 3 times: [ {t}]", "{t}\r",
)  # fmt: skip


@lru_cache(maxsize=1)
def seeds() -> tuple[bytes, ...]:
    """Lines to start from: samples of all patterns, and lines of the fixtures."""
    samples = [s for parser in load_parsers() for p in parser.patterns for s in (p.sample, *p.not_samples) if s]
    lines = [line for path in sorted((_FIXTURES / "parsers").glob("*.log")) for line in path.read_bytes().split(b"\n")]
    return tuple(dict.fromkeys([sample.encode() for sample in samples] + [line for line in lines if line]))


def wrapped(rng: random.Random) -> bytes:
    """A line in up to three envelopes, any inside any other."""
    text = rng.choice(seeds()).decode("utf-8", "replace")
    for _ in range(rng.randrange(4)):
        text = rng.choice(_ENVELOPES).format(s=rng.choice(_STAMPS), t=text)[:_LONGEST]
    return text.encode("utf-8", "replace")


def mutated(data: bytes, rng: random.Random, most: int = 4) -> bytes:
    """The bytes with up to ``most`` pieces cut, doubled, swapped, overwritten or put in."""
    for _ in range(rng.randrange(most + 1)):
        at = rng.randrange(len(data) + 1)
        to = min(len(data), at + rng.choice((1, 2, 4, 16, 64)))
        data = _CHANGES[rng.randrange(len(_CHANGES))](data, at, to, rng)
    return data


_CHANGES: tuple[Callable[[bytes, int, int, random.Random], bytes], ...] = (
    lambda d, a, b, r: d[:a] + d[b:],
    lambda d, a, b, r: d[:b] + d[a:],
    lambda d, a, b, r: d[:a] + r.randbytes(b - a) + d[b:],
    lambda d, a, b, r: d[:a] + bytes([r.choice(b"\0\r\n\t\x1b[](){}<>:,.\"'\\/-+ 0123456789eE\xff\xc3")]) + d[a:],
    lambda d, a, b, r: d[:a],
    lambda d, a, b, r: d[:a] + b"9" * r.choice((5, 10, 20, 400)) + d[b:],
    lambda d, a, b, r: d[:a] + r.choice(seeds())[:200] + d[a:],
    lambda d, a, b, r: d[:a] + d[a:b] * r.choice((2, 50)) + d[b:],
)


def line(rng: random.Random) -> bytes:
    """One line, damaged or not."""
    return mutated(wrapped(rng), rng)[:_LONGEST]


# --- what is done with them ------------------------------------------------------------------------------------------


def check_line(raw: bytes) -> None:
    """Envelopes and stamps of a line, in a context of its own."""
    text = raw.decode("utf-8", "replace")
    context = file_context(JobContext(), raw, b"", 1_714_542_018 * 10**9, single_process=False, complete=True)
    p = peel(text, context)
    for value in (p.timestamp_ns, p.boot_ns, *dated_stamps_ns(raw, Clock())):
        assert value is None or abs(value) < 1 << 63, f"a time beyond 64 bits: {value}"
    for number in (p.rank, p.local_rank, p.task):
        assert number is None or 0 <= number < 1 << 31, f"a rank beyond 32 bits: {number}"
    for at in range(0, min(len(text), 40), 3):
        match_stamp(text, at, context.clock)


def check_layout(stamps: Sequence[str]) -> None:
    """A layout learned from some lines, and used on them."""
    layout = learn_layout(stamps)
    if layout is not None:
        context = file_context(
            JobContext(), "\n".join(stamps).encode(), b"", 10**18, single_process=False, complete=True
        )
        for stamp in stamps:
            peel(stamp, context)


def check_log(content: bytes, folder: Path) -> int:
    """A whole log through the reader; gives the number of its rows. Lines and offsets are counted again here."""
    path = folder / "fuzz.log"
    path.write_bytes(content)
    try:
        result = ingest(path)
    except NothingReadable:
        return 0
    events = result.events
    events.validate(full=True)
    (source,) = result.sources
    if not source.streamed:
        newlines = np.flatnonzero(np.frombuffer(content, np.uint8) == 10)
        offsets = events.column("byte_offset").to_numpy()
        lines = events.column("line").to_numpy()
        assert (np.searchsorted(newlines, offsets) + 1 == lines).all(), "a line number is wrong"
        assert not len(offsets) or 0 <= offsets.min() <= offsets.max() < len(content), "an offset is outside"
    return int(events.num_rows)


def archive(rng: random.Random) -> bytes:
    """A small archive of any kind, maybe in another one, damaged or not."""
    members = {
        rng.choice(("a.log", "../b.log", "n1/rank_0.log.gz", "/etc/c.log", "x" * 300, "d\x00.log")): line(rng) * rng.choice((1, 200))
        for _ in range(rng.randrange(4))
    }  # fmt: skip
    if rng.random() < 0.3:
        members["packed.log"] = COMPRESS[rng.choice(list(COMPRESS))](line(rng))
    make = ARCHIVES[rng.choice(list(ARCHIVES))]
    data = tar({**members, "l": link("l", "/etc/passwd")}) if rng.random() < 0.1 else make(members)
    if rng.random() < 0.3:
        data = ARCHIVES[rng.choice(list(ARCHIVES))]({"inner": mutated(data, rng, 2)})
    return mutated(data, rng)


def check_archive(content: bytes, folder: Path) -> int:
    """Anything as an archive; gives the number of files found in it."""
    path = folder / "fuzz.bin"
    path.write_bytes(content)
    before = sorted(folder.iterdir())
    try:
        found = discover([path])
    except NothingReadable:
        return 0
    assert sorted(folder.iterdir()) == before, "something was extracted"
    for source in found.files:
        for part in source.name.split("!/"):
            assert part == harmless_name(part), f"a name that leads out: {source.name!r}"
        assert source.size <= 64 << 20, "a copy larger than anything that was packed"
    return len(found.files)


@lru_cache(maxsize=3)
def _trees(kind: str) -> tuple[Path, ...]:
    return tuple(sorted(path for path in (_FIXTURES / kind).iterdir()))


def document(rng: random.Random) -> bytes:
    """What a program printed over many lines (JSON, tables, reports), damaged as a whole."""
    return mutated(rng.choice(_trees("parsers")).read_bytes(), rng, 6)


def damaged_tree(kind: str, rng: random.Random, target: Path) -> None:
    """A copy at ``target`` of one of the fixtures of a kind; some of its files are damaged, emptied or gone."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(rng.choice(_trees(kind)), target)
    files = sorted(path for path in target.rglob("*") if path.is_file())
    for path in rng.sample(files, min(len(files), rng.randrange(1, 5))):
        if rng.random() < 0.2:
            path.unlink()
        else:
            path.write_bytes(mutated(path.read_bytes(), rng, 6) if rng.random() < 0.9 else b"")


def check_diagnosis(rng: random.Random, folder: Path) -> None:
    """A damaged folder of logs through the whole of ``diagnose``, twice: one answer, and every line cited is there."""
    damaged_tree("cases", rng, folder / "case")
    try:
        first, again = (diagnose(folder / "case" / "logs", workers=1) for _ in range(2))
    except NothingReadable:
        return
    assert to_json(first.document) == to_json(again.document), "two answers to one question"
    assert first.html()
    for cited in first.document.evidence:
        size = (folder / "case" / "logs" / cited.file).stat().st_size
        assert 0 <= cited.byte_offset < size, "evidence outside its file"


def check_checkpoint(rng: random.Random, folder: Path) -> None:
    """A damaged checkpoint, looked at from outside and read as a whole."""
    damaged_tree("checkpoints", rng, folder / "checkpoint")
    for deep in (False, True):
        scan(folder / "checkpoint", deep=deep)
