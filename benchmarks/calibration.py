"""Whether the confidence is what it says, and whether simple rules would do as well.

    python benchmarks/calibration.py CASES_DIR...

Over cases with a known truth (``known.py``), as Markdown: accuracy of class and of rank for each band of confidence,
the expected calibration error, how accuracy falls as more answers are taken, the wrong answers given with 0.8 or more,
and the simple rules that people go by, over the same cases.

Nothing is fitted here: the numbers in ``correlator/attribution/confidence.py`` are written by hand, so that every case
tests them. What was looked at while they were written is no proof for them; the table by family shows whether one
family of cases carries the average.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from known import Case, everybody, load_cases

from correlator.cascade.model import Facts
from correlator.pipeline import Diagnosis
from correlator.records import Row

_BANDS = (0.0, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.01)
_COVERAGES = (0.1, 0.25, 0.5, 0.75, 0.9, 1.0)
_SURE = 0.8
_FAMILIES_SHOWN = 3


@dataclass(frozen=True)
class Mark:
    """One answer about one thing: how sure it was, whether it is right, and the words to list it by."""

    family: str
    sure: float
    right: bool
    said: str


@dataclass(frozen=True)
class Answer:
    """What a rule says: a class, and ranks where it names any."""

    class_: str
    ranks: tuple[int, ...] = ()


def _by_row(facts: Facts, row: Row | None) -> Answer:
    """The answer of somebody who believes one line; the class is that of its entry in the encyclopedia."""
    if row is None:
        return Answer("none")
    entry = facts.signatures.get(row.signature or "")
    return Answer(entry.class_ if entry else "unknown", () if row.rank is None else (row.rank,))


def _errors(facts: Facts) -> list[Row]:
    return sorted((r for r in facts.rows if r.severity in ("error", "fatal")), key=lambda r: (r.file, r.byte_offset))


def first_error_line(facts: Facts) -> Answer:
    """The first error when the files are read in the order of their names."""
    return _by_row(facts, next(iter(_errors(facts)), None))


def earliest_time_stamp(facts: Facts) -> Answer:
    """The error with the earliest time stamp, clocks as they are."""
    stamped = [r for r in _errors(facts) if r.timestamp is not None]
    return _by_row(facts, min(stamped, key=lambda r: r.timestamp or 0, default=None))


def last_traceback(facts: Facts) -> Answer:
    """The last Python traceback by time, or of the last file."""
    found = [r for r in _errors(facts) if r.event == "python.exception"]
    return _by_row(facts, max(found, key=lambda r: (r.timestamp or 0, r.file, r.byte_offset), default=None))


def torchrun_root_cause(facts: Facts) -> Answer:
    """What torchrun's report calls the root cause, its class by what that rank's traceback or exit code means."""
    roots = [r for r in facts.events("torchrun.report_entry") if r.attr("is_root") == "true"]
    root = min(roots, key=lambda r: r.attr("time"), default=None)
    if root is None:
        return Answer("unknown" if _errors(facts) else "none")
    raised = [r for r in _errors(facts) if r.event == "python.exception" and r.rank is not None and r.rank == root.rank]
    return _by_row(facts, raised[-1]) if raised else _by_row(facts, root)


def exit_code(facts: Facts) -> Answer:
    """The first exit that is no SIGTERM: SIGKILL came from outside, another signal is the machine's, 1 the code's."""
    exits = [r for r in facts.rows if (r.exit_code or 0) not in (0, -15, 143) or r.signal not in (None, 0, 15)]
    first = min(exits, key=lambda r: (r.timestamp or 0, r.file, r.byte_offset), default=None)
    if first is None:
        return Answer("none")
    code = first.exit_code or 0
    number = first.signal or (-code if code < 0 else max(code - 128, 0))
    class_ = "infrastructure" if number == 9 else "hardware" if number else "application"
    return Answer(class_, () if first.rank is None else (first.rank,))


RULES: dict[str, Callable[[Facts], Answer]] = {
    "first ERROR line": first_error_line,
    "earliest time stamp": earliest_time_stamp,
    "last traceback": last_traceback,
    "torchrun's root cause": torchrun_root_cause,
    "exit code": exit_code,
}


def _marks(case: Case, answer: Diagnosis) -> tuple[Mark, Mark | None]:
    """How the class and, where the truth names ranks or the answer does, the ranks did."""
    verdict, who = answer.verdict, answer.initiator
    said = f"{case.name}: {verdict.class_}/{verdict.signature}, ranks {who.ranks[:8]}"
    truth = f"; truth {'/'.join(case.classes)}, ranks {sorted(case.ranks)[:8]}"
    klass = Mark(case.family, verdict.confidence, case.class_right(verdict.class_), said + truth)
    # An answer that names nobody makes no claim about ranks that its confidence could be held against.
    if not (who.ranks or everybody(answer.document)):
        return klass, None
    right = case.ranks_right(who.ranks, everybody(answer.document))
    return klass, Mark(case.family, verdict.confidence, right, said + truth)


def _bands(title: str, marks: Sequence[Mark]) -> Iterator[str]:
    yield f"\n### {title}: {len(marks)} answers\n"
    yield "| confidence | answers | mean confidence | right |"
    yield "|---|---:|---:|---:|"
    for low, high in itertools.pairwise(_BANDS):
        found = [m for m in marks if low <= m.sure < high]
        if found:
            band, mean = f"{low:.1f} to {min(high, 1):.1f}", _mean(m.sure for m in found)
            yield f"| {band} | {len(found)} | {mean:.2f} | {_share(found)} |"
    yield f"\nExpected calibration error {expected_error(marks):.3f}.\n"
    yield "| most certain answers taken | " + " | ".join(f"{100 * c:.0f} %" for c in _COVERAGES) + " |"
    yield "|---|" + "---:|" * len(_COVERAGES)
    ordered = sorted(marks, key=lambda m: (-m.sure, m.said))
    taken = [_share(ordered[: max(1, round(c * len(ordered)))]) for c in _COVERAGES]
    yield "| of these right | " + " | ".join(taken) + " |"
    sure = [m for m in marks if m.sure >= _SURE]
    wrong = [m for m in sure if not m.right]
    yield f"\nWrong of the {len(sure)} answers given with {_SURE} or more: {len(wrong)}.\n"
    yield from (f"- {m.sure:.2f} {m.said}" for m in sorted(wrong, key=lambda m: m.said))


def expected_error(marks: Sequence[Mark]) -> float:
    """The mean distance between confidence and share of right answers, over bands weighted by their answers."""
    total = 0.0
    for low, high in itertools.pairwise(_BANDS):
        found = [m for m in marks if low <= m.sure < high]
        if found:
            total += abs(sum(m.sure for m in found) - sum(m.right for m in found))
    return total / max(len(marks), 1)


def _families(marks: Sequence[Mark]) -> Iterator[str]:
    """The families with the largest gap between confidence and truth: what one left out would change."""
    groups: dict[str, list[Mark]] = defaultdict(list)
    for mark in marks:
        groups[mark.family].append(mark)
    gap = {name: _mean(m.sure for m in found) - _mean(m.right for m in found) for name, found in groups.items()}
    without = [expected_error([m for m in marks if m.family != name]) for name in groups]
    yield f"\n{len(groups)} families; the error without any one of them: {min(without):.3f} to {max(without):.3f}.\n"
    for name in sorted(gap, key=lambda n: (-gap[n] * len(groups[n]), n))[:_FAMILIES_SHOWN]:
        yield f"- most over-confident: {name}, {len(groups[name])} cases, {gap[name]:+.2f}"


def _rules_table(cases: Sequence[Case], answers: Sequence[Diagnosis]) -> Iterator[str]:
    yield f"\n### Simple rules, {len(cases)} cases\n"
    yield "| | class right | rank right | an innocent rank named |"
    yield "|---|---:|---:|---:|"
    for name, rule in RULES.items():
        yield _rule_row(name, cases, [rule(d.facts) for d in answers], [False] * len(cases))
    ours = [Answer(d.verdict.class_, tuple(d.initiator.ranks)) for d in answers]
    yield _rule_row("correlator", cases, ours, [everybody(d.document) for d in answers])


def _rule_row(name: str, cases: Sequence[Case], answers: Sequence[Answer], all_of_them: Sequence[bool]) -> str:
    klass = [case.class_right(a.class_) for case, a in zip(cases, answers, strict=True)]
    asked = [each for each in zip(cases, answers, all_of_them, strict=True) if each[0].ranks]
    ranks = [case.ranks_right(a.ranks, everyone) for case, a, everyone in asked]
    blame = [bool(set(a.ranks) - case.ranks) for case, a, _ in asked if not case.everybody]
    return f"| {name} | {_part(klass)} | {_part(ranks)} | {_part(blame)} |"


def _part(marks: Sequence[bool]) -> str:
    return f"{100 * _mean(marks):.0f} % of {len(marks)}" if marks else ""


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return sum(found) / max(len(found), 1)


def _share(marks: Sequence[Mark]) -> str:
    return f"{100 * _mean(m.right for m in marks):.1f} %"


def main() -> int:
    """Prints the report; 1 if more than 2 % of the classes given with 0.8 or more are wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", type=Path, nargs="+", metavar="CASES_DIR")
    cases = load_cases(parser.parse_args().cases)
    if not cases:
        print("no case.toml found", file=sys.stderr)
        return 2
    answers = [case.diagnose() for case in cases]
    marked = [_marks(case, answer) for case, answer in zip(cases, answers, strict=True)]
    classes, ranks = [m for m, _ in marked], [m for _, m in marked if m is not None]
    print("Nothing is fitted: no case was held out, and none had to be.")
    print(*_bands("Class", classes), *_families(classes), *_bands("Rank", ranks), *_families(ranks), sep="\n")
    print(*_rules_table(cases, answers), sep="\n")
    sure = [m for m in classes if m.sure >= _SURE]
    return int(sum(not m.right for m in sure) > 0.02 * len(sure))


if __name__ == "__main__":
    sys.exit(main())
