"""Whether the answers stand when logs are missing, cut, reordered, or stamped by wrong clocks.

    python benchmarks/robustness.py CASES_DIR... [--only a,b,c,d,e,f] [--sample N --seed S]

Over cases with a known truth (``known.py``), each variation on a temporary copy:

a  each file of an innocent rank or node is deleted in turn: no innocent may be blamed that was not before
b  all files of the guilty alone are deleted: the answer stays right, or is honest (class unknown, or no rank accused)
c  the clock of each node is off by up to ten minutes and in another zone: class, ranks and nodes stay
d  files are created in another order and read by one and by two processes: the same bytes
e  each file is cut at a random point of its last tenth: no crash, no innocent newly blamed
f  the folder as it is found at night: half of the files compressed, progress bars before lines, clocks up to 40 s
   apart, an innocent's file missing: class, ranks and nodes stay

c moves stamps of common layouts in plain-text files that belong to one node. Files of several nodes, and compressed
ones, stay as they are and are counted; only cases with moved files of two nodes are tried.
"""

from __future__ import annotations

import argparse
import bz2
import gzip
import lzma
import os
import random
import shutil
import sys
import tempfile
import traceback
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

from known import ACCUSES, Case, everybody, load_cases, short
from stamps import STATED_ZONE, moved

import correlator
from correlator.diagnosis import Document, to_json
from correlator.errors import NothingReadable
from correlator.pipeline import Diagnosis

_WHAT = {
    "a": "a file of an innocent deleted: no innocent newly blamed",
    "b": "the guilty's own files deleted: right or honest",
    "c": "clocks off by ±10 min and zones: same class, ranks, nodes",
    "d": "files in another order, 1 and 2 processes: same bytes",
    "e": "a file cut in its last tenth: no crash, no innocent newly blamed",
    "f": "compressed, progress bars, clocks ±40 s, a file missing: same class, ranks, nodes",
}
_SHOWN = 60


@dataclass
class Tally:
    """The tries of one variation, and what went wrong by case."""

    tries: int = 0
    failures: list[str] = field(default_factory=list)
    notes: dict[str, int] = field(default_factory=lambda: defaultdict(int))


@dataclass(frozen=True)
class Base:
    """A case, its unchanged diagnosis, and who wrote each file: its ranks and nodes as the topology has them."""

    case: Case
    whole: Diagnosis
    ranks: dict[str, set[int]]
    nodes: dict[str, set[str]]

    def innocent(self, file: str) -> bool:
        """Whether a file is known to be that of ranks, or of a node, which the truth does not name."""
        case = self.case
        if case.everybody or not (self.ranks[file] or self.nodes[file]):
            return False
        if self.ranks[file] and case.ranks:
            return not self.ranks[file] & case.ranks
        return not self.nodes[file] & self.guilty_nodes()

    def guilty(self, file: str) -> bool:
        """Whether a file is that of the guilty alone: its rank's, or where no rank is known its node's."""
        if self.ranks[file] and self.case.ranks:
            return self.ranks[file] <= self.case.ranks
        return bool(self.nodes[file]) and self.nodes[file] <= self.guilty_nodes()

    def guilty_nodes(self) -> set[str]:
        """The true nodes, with those on which the true ranks run."""
        return {*self.case.nodes, *(short(n) for n in self.whole.topology.nodes_of(self.case.ranks))}

    def newly_blamed(self, document: Document) -> list[str]:
        """Ranks or nodes that neither the truth nor the unchanged answer names, where the answer accuses somebody."""
        case, before, now = self.case, self.whole.document.initiator, document.initiator
        if case.everybody or document.verdict.confidence < ACCUSES or everybody(document):
            return []
        nodes = {short(n) for n in now.nodes} - self.guilty_nodes() - {short(n) for n in before.nodes}
        top = self.whole.topology
        ranks = [
            r
            for r in sorted(set(now.ranks) - case.ranks - set(before.ranks))
            if case.ranks or short(top.node_of_rank(r) or "") not in case.nodes
        ]
        return [f"rank {r}" for r in ranks] or [f"node {n}" for n in sorted(nodes)]


def base_of(case: Case) -> Base:
    """The unchanged answer of a case, and whose its files are."""
    whole = case.diagnose()
    top = whole.topology
    ranks: dict[str, set[int]] = defaultdict(set)
    nodes: dict[str, set[str]] = defaultdict(set)
    for writer in whole.facts.ingested.writers:
        ranks[writer.file] |= {writer.rank} if writer.rank is not None else set()
        nodes[writer.file] |= {short(writer.node)} if writer.node else set()
    for row in whole.facts.rows:
        if row.rank is not None and row.rank_basis in ("line", "envelope"):
            ranks[row.file].add(row.rank)
    for name, node in top.node_of_file.items():
        nodes[name].add(short(node))
    for name, found in ranks.items():
        nodes[name] |= {short(n) for n in top.nodes_of(found)}
    return Base(case, whole, ranks, nodes)


def _files(base: Base) -> list[str]:
    return sorted(s.name for s in base.whole.facts.ingested.sources if (base.case.logs / s.name).is_file())


def _said(document: Document) -> str:
    verdict, who = document.verdict, document.initiator
    return f"{verdict.class_}/{verdict.signature} {verdict.confidence} ranks {who.ranks[:8]} nodes {who.nodes[:4]}"


def _deleted_innocents(base: Base, rng: random.Random, work: Path, tally: Tally) -> None:
    files = _files(base)
    for name in files if len(files) > 1 else []:
        if not base.innocent(name):
            continue
        copy = _copy(base.case.logs, work)
        (copy / name).unlink()
        document = base.case.diagnose(copy).document
        tally.tries += 1
        if blamed := base.newly_blamed(document):
            tally.failures.append(f"{base.case.name}: without {name}: {', '.join(blamed)}; {_said(document)}")


def _deleted_guilty(base: Base, rng: random.Random, work: Path, tally: Tally) -> None:
    files = _files(base)
    own = [name for name in files if base.guilty(name)]
    if not own or len(own) == len(files) or base.case.everybody:
        return
    copy = _copy(base.case.logs, work)
    for name in own:
        (copy / name).unlink()
    document = base.case.diagnose(copy).document
    tally.tries += 1
    ranks, sure = document.initiator.ranks, document.verdict.confidence >= ACCUSES
    right_ranks = base.case.ranks_right(ranks, everybody(document)) if base.case.ranks else not ranks
    right = base.case.class_right(document.verdict.class_) and right_ranks
    unknown = document.verdict.class_ == "unknown"
    tally.notes["right"] += right
    tally.notes["honest"] += not right and (unknown or not ranks)
    if not right and ranks and (not unknown or (sure and base.newly_blamed(document))):
        tally.failures.append(f"{base.case.name}: without {', '.join(own[:4])}: {_said(document)}")


_PLAIN = (".log", ".txt", ".out", ".err", ".stdout", ".stderr", "")


def _wrong_clocks(base: Base, rng: random.Random, work: Path, tally: Tally) -> None:
    files: dict[str, list[str]] = defaultdict(list)
    stated: set[str] = set()
    other = 0
    for name in _files(base):
        path = base.case.logs / name
        text = path.read_bytes().decode("utf-8", "surrogateescape") if path.suffix in _PLAIN else ""
        if len(base.nodes[name]) == 1 and moved(text, timedelta())[1]:
            (node,) = base.nodes[name]
            files[node].append(name)
            stated |= {node} if STATED_ZONE.search(text) else set()
        else:
            other += 1
    if len(files) < 2:
        tally.notes["cases left out"] += 1
        return
    copy = _copy(base.case.logs, work)
    for node in sorted(files):
        zone = 0 if node in stated else rng.randint(-11, 12)
        by = timedelta(seconds=rng.randint(-600, 600), hours=zone)
        for name in files[node]:
            path = copy / name
            times = path.stat()
            text, _ = moved(path.read_bytes().decode("utf-8", "surrogateescape"), by)
            path.write_bytes(text.encode("utf-8", "surrogateescape"))
            _touch(path, times.st_mtime_ns)
    document = base.case.diagnose(copy).document
    tally.tries += 1
    tally.notes["files moved"] += sum(map(len, files.values()))
    tally.notes["files of these cases not moved"] += other
    if _answer(document) != _answer(base.whole.document):
        before = _said(base.whole.document)
        tally.failures.append(f"{base.case.name}: {_said(document)}, before {before}")


def _answer(document: Document) -> tuple[object, ...]:
    return document.verdict.class_, document.initiator.ranks, document.initiator.nodes


def _other_order(base: Base, rng: random.Random, work: Path, tally: Tally) -> None:
    files = sorted(p.relative_to(base.case.logs) for p in base.case.logs.rglob("*") if p.is_file())
    wanted = to_json(base.whole.document)
    for workers in (1, 2):
        rng.shuffle(files)
        copy = work / f"{workers}" / "logs"
        for name in files:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(base.case.logs / name, copy / name)
        tally.tries += 1
        if to_json(correlator.diagnose(copy, workers=workers).document) != wanted:
            tally.failures.append(f"{base.case.name}: {workers} processes")


def _cut(base: Base, rng: random.Random, work: Path, tally: Tally) -> None:
    for name in _files(base):
        copy = _copy(base.case.logs, work)
        times, size = (copy / name).stat(), (copy / name).stat().st_size
        with (copy / name).open("rb+") as file:
            file.truncate(rng.randint(size - size // 10, size))
        _touch(copy / name, times.st_mtime_ns)
        tally.tries += 1
        try:
            document = base.case.diagnose(copy).document
        except NothingReadable:
            tally.notes["nothing readable left"] += 1
            continue
        if blamed := base.newly_blamed(document):
            tally.failures.append(f"{base.case.name}: {name} cut: {', '.join(blamed)}; {_said(document)}")


_COMPRESSED: dict[str, Callable[[bytes], bytes]] = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
#: A line in so many gets a progress bar before it.
_BARRED = 20


def _as_found(base: Base, rng: random.Random, work: Path, tally: Tally) -> None:
    copy = _copy(base.case.logs, work)
    files = _files(base)
    innocent = [name for name in files if base.innocent(name)]
    if len(innocent) > 1:
        gone = rng.choice(innocent)
        (copy / gone).unlink()
        files.remove(gone)
    shifts: dict[str, timedelta] = {}
    for name in files:
        path = copy / name
        if path.suffix not in _PLAIN:
            continue
        times = path.stat()
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        if len(base.nodes[name]) == 1:
            (node,) = base.nodes[name]
            text, _ = moved(text, shifts.setdefault(node, timedelta(seconds=rng.randint(-40, 40))))
        data = "".join(_barred(text, rng)).encode("utf-8", "surrogateescape")
        ending = rng.choice(["", "", "", *_COMPRESSED])
        if ending:
            path.unlink()
            path, data = path.with_name(path.name + ending), _COMPRESSED[ending](data)
        path.write_bytes(data)
        _touch(path, times.st_mtime_ns)
    document = base.case.diagnose(copy).document
    tally.tries += 1
    if _answer(document) != _answer(base.whole.document):
        tally.failures.append(f"{base.case.name}: {_said(document)}, before {_said(base.whole.document)}")


def _barred(text: str, rng: random.Random) -> Iterator[str]:
    """The lines, some behind a progress bar that was drawn on the same line; a continued block stays whole."""
    for line in text.splitlines(keepends=True):
        if line[:1].strip() and not rng.randrange(_BARRED):
            shard = rng.randint(1, 9)
            yield f"Loading shards:  {shard}0%|{'#' * shard:10}| {shard}/10 [00:0{shard}<00:12,  1.27s/it]\r"
        yield line


def _touch(path: Path, mtime_ns: int) -> None:
    """Gives a file its time back: years that stamps leave open are taken from it."""
    os.utime(path, ns=(mtime_ns, mtime_ns))


def _copy(logs: Path, work: Path) -> Path:
    copy = work / "logs"
    if copy.exists():
        shutil.rmtree(copy)
    shutil.copytree(logs, copy)
    return copy


_VARIATIONS: dict[str, Callable[[Base, random.Random, Path, Tally], None]] = {
    "a": _deleted_innocents,
    "b": _deleted_guilty,
    "c": _wrong_clocks,
    "d": _other_order,
    "e": _cut,
    "f": _as_found,
}


def run(cases: list[Case], letters: list[str], seed: int) -> dict[str, Tally]:
    """All chosen variations over all cases; a case's random choices depend on its name and the seed alone."""
    tallies = {letter: Tally() for letter in letters}
    for base in map(base_of, cases):
        for letter, tally in tallies.items():
            with tempfile.TemporaryDirectory() as name:
                try:
                    _VARIATIONS[letter](base, random.Random(f"{base.case.name} {letter} {seed}"), Path(name), tally)
                except Exception:
                    tally.tries += 1
                    tally.failures.append(f"{base.case.name}: raised\n{traceback.format_exc(limit=-3)}")
    return tallies


def _table(tallies: dict[str, Tally]) -> Iterator[str]:
    yield "| | variation | tries | held | ratio | |"
    yield "|---|---|---:|---:|---:|---|"
    for letter, tally in tallies.items():
        held = tally.tries - len(tally.failures)
        ratio = f"{100 * held / tally.tries:.1f} %" if tally.tries else ""
        notes = ", ".join(f"{what} {count}" for what, count in tally.notes.items())
        yield f"| {letter} | {_WHAT[letter]} | {tally.tries} | {held} | {ratio} | {notes} |"


def main() -> int:
    """Prints the table and the failures; 1 if there are any."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, nargs="+", metavar="CASES_DIR")
    parser.add_argument("--only", default="a,b,c,d,e,f")
    parser.add_argument("--sample", type=int, help="this many cases, drawn at random")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    letters = options.only.split(",")
    if not set(letters) <= set(_VARIATIONS):
        parser.error(f"--only takes letters of {','.join(_VARIATIONS)}")
    cases = load_cases(options.cases)
    if not cases:
        print("no case.toml found", file=sys.stderr)
        return 2
    if options.sample:
        cases = random.Random(options.seed).sample(cases, min(options.sample, len(cases)))
    tallies = run(cases, letters, options.seed)
    print(f"{len(cases)} cases\n", *_table(tallies), sep="\n")
    for letter, tally in tallies.items():
        for failure in tally.failures[:_SHOWN]:
            print(f"{letter}  {failure}")
    return int(any(t.failures for t in tallies.values()))


if __name__ == "__main__":
    sys.exit(main())
