"""The sentences that every form of the report shares: who, when, where, resume. Plain text, not yet made harmless."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from correlator.diagnosis import Action, Alternative, Document, Gpu, Initiator, Job, Resume, ResumeCandidate
from correlator.phrases import agree, sentence
from correlator.report import words

NO_RANK_KNOWN = "These logs do not say which rank wrote which line; a quiet rank cannot be told from a missing log."
_RESUME_HEADLINES = {
    "safe": "Safe to resume",
    "unsafe": "Not safe to resume",
    "no-checkpoint": "No checkpoint to resume from: the job starts over",
    "unknown": "Not known whether it is safe to resume",
}
#: Beyond this width of the interval a time is told by its two ends.
_INTERVAL_S = 2.0
_VERSIONS_SHOWN = 4


def headline(document: Document) -> str:
    """Class, title and how sure that is."""
    verdict = document.verdict
    title = words.HEADLINES[verdict.class_]
    if verdict.class_ != "none" and verdict.title:
        title += f": {agree(verdict.title)}"
    named = verdict.class_ == "unknown" and (document.initiator.ranks or document.initiator.nodes)
    sure = words.confidence_words(verdict.confidence)
    return f"{title}; {'who it was: ' if named else ''}{sure}"


def place_line(document: Document) -> str:
    """Who failed first, where and when, in one line."""
    initiator = document.initiator
    parts = [who(document)]
    if len(initiator.gpus) == 1 and len(initiator.ranks) <= 1 and initiator.gpus[0].index is not None:
        parts.append(f"GPU {initiator.gpus[0].index}")
    if (initiator.ranks or initiator.nodes) and initiator.time:
        parts.append(when(document, short=True))
    return ", ".join(parts)


def who(document: Document) -> str:
    """Ranks and nodes of the first failure, or that none can be named."""
    initiator, world_size = document.initiator, document.job.world_size
    at = f", {words.fold_nodes(initiator.nodes)}" if initiator.nodes else ""
    if initiator.scope == "all":
        return (
            f"all {world_size} ranks" if (world_size or 0) > 1 else "the only rank" if world_size == 1 else "all ranks"
        )
    if initiator.scope == "node" and initiator.nodes:
        ranks = f" with {words.ranks_words(initiator.ranks)}" if initiator.ranks else ""
        return f"{'node' if len(initiator.nodes) == 1 else 'nodes'} {words.fold_nodes(initiator.nodes)}{ranks}"
    if initiator.ranks:
        return words.ranks_words(initiator.ranks) + at
    if initiator.nodes:
        return f"{words.fold_nodes(initiator.nodes)}, rank not known"
    return "no rank or node can be named on this evidence"


def when(document: Document, short: bool = False) -> str:
    """The time of the first failure, and what it is: a stamp, an interval, or a last sign of life."""
    initiator = document.initiator
    time, bound = initiator.time, initiator.time_uncertainty_s
    if time is None:
        return "time not known" if initiator.ranks or initiator.nodes else ""

    def told(shift: float = 0.0) -> str:
        stamp = words.clock_words(time + timedelta(seconds=shift), bound)
        return stamp[11:] if short else stamp

    if bound is None:
        if _untied(document, initiator):
            return f"{told()} by its own clock" + ("" if short else ", which nothing ties to the others")
        return f"last sign of life {told()}"
    if bound >= _INTERVAL_S:
        first, last = told(-bound).removesuffix(" UTC"), told(bound)
        same_day = not short and first[:11] == last[:11]
        return f"between {first} and {last[11:] if same_day else last}"
    return told() if short or not bound else f"{told()} (± {words.seconds_words(bound)}{_own_clock(document)})"


def is_rough(initiator: Initiator) -> bool:
    """Whether times counted from the first failure are rough."""
    return initiator.time_uncertainty_s is None or initiator.time_uncertainty_s >= _INTERVAL_S


def untied_nodes(document: Document) -> set[str]:
    """Nodes whose clocks nothing ties to the others."""
    return {c.node for c in document.clocks if c.bound_s is None} if len(document.clocks) > 1 else set()


def _untied(document: Document, initiator: Initiator) -> bool:
    return bool(untied_nodes(document) & set(initiator.nodes))


def _own_clock(document: Document) -> str:
    """What a reader must know who compares the time with the stamp printed on the line."""
    offsets = [c.offset_s for c in document.clocks if c.node in document.initiator.nodes and c.offset_s]
    reference = reference_node(document)
    if len(offsets) != 1 or abs(offsets[0]) < words.OFFSET_TOLD_S or not reference:
        return ""
    side = "ahead of" if offsets[0] > 0 else "behind"
    return f"; its own clock is {words.seconds_words(offsets[0])} {side} {reference}'s"


def reference_node(document: Document) -> str:
    """The node on whose clock times are shown; empty where there is one clock only."""
    if len(document.clocks) < 2:
        return ""
    return next((c.node for c in document.clocks if c.basis == "reference"), "")


def gpus(document: Document) -> Iterator[str]:
    """One line a GPU of the first failure."""
    found: list[Gpu] = document.initiator.gpus
    for gpu in found:
        index = f"GPU {gpu.index}" if gpu.index is not None else "GPU"
        named = (("PCI", gpu.pci_bus_id), ("serial", gpu.serial), ("", gpu.uuid))
        identity = ", ".join(f"{name} {value}".strip() for name, value in named if value)
        at = f" on {gpu.node}" if gpu.node and len(found) > 1 else ""
        yield f"{index}{at} ({identity})" if identity else index + at


def job_line(job: Job) -> str:
    """The job in one line: size, nodes, framework, parallel sizes, versions, last step, time span."""
    parts = [words.count_words(job.world_size, "rank")] if job.world_size else []
    if job.nodes:
        parts.append(f"{words.count_words(len(job.nodes), 'node')} ({words.fold_nodes(job.nodes)})")
    if job.framework:
        parts.append(job.framework)
    if job.topology:
        sizes = [(name, getattr(job.topology, name)) for name in ("tp", "pp", "dp")]
        sizes += [(name, size) for name in ("cp", "ep") if (size := getattr(job.topology, name)) != 1]
        parts.append(" ".join(f"{name} {size}" for name, size in sizes if size))
    parts += [f"{name} {version}" for name, version in sorted(job.versions.items())[:_VERSIONS_SHOWN]]
    if job.last_step is not None:
        parts.append(f"last step {job.last_step}")
    if job.started and job.ended:
        parts.append(f"{words.clock_words(job.started, 1)} to {words.clock_words(job.ended, 1)}")
    return f"job {job.job_id or ''}".rstrip() + ": " + (", ".join(part for part in parts if part) or "nothing known")


def resume_head(resume: Resume) -> str:
    """Whether it is safe to resume, and from which iteration."""
    head = _RESUME_HEADLINES[resume.status]
    if resume.iteration is not None:
        head += f" {'from' if resume.status == 'safe' else 'at'} iteration {resume.iteration}"
    return head


def resume_short(document: Document) -> str:
    """The same in a few words, for the first screen."""
    resume = document.resume
    if resume.status == "unknown":
        return "Resume: not known" + ("" if resume.candidates else "; rerun with --checkpoints DIR")
    return resume_head(resume)


def resume_reasons(resume: Resume) -> list[str]:
    """The reasons; where the files were not looked at, how to have that done."""
    reasons = [agree(reason) for reason in resume.reasons]
    unseen = [n for n, r in enumerate(reasons) if "not looked at" in r]
    if not unseen and resume.status == "unknown" and not resume.candidates:
        return [*reasons, "the checkpoint folder was not looked at: rerun with --checkpoints DIR"]
    return [f"{r} (rerun with --checkpoints DIR)" if n in unseen else r for n, r in enumerate(reasons)]


#: What is said of a checkpoint that is whole, is not, or was not looked at.
STATES = {True: "complete", False: "incomplete", None: "not checked"}


def candidate(entry: ResumeCandidate) -> str:
    """One checkpoint in one line."""
    state = STATES[entry.complete]
    name = entry.path or (f"iteration {entry.iteration}" if entry.iteration is not None else "checkpoint")
    return ", ".join(part for part in [f"{name}: {state}", entry.topology, *entry.problems] if part)


def is_chosen(entry: ResumeCandidate, resume: Resume) -> bool:
    """Whether the answer is this checkpoint."""
    return bool(resume.path) and (entry.path, entry.iteration) == (resume.path, resume.iteration)


def other_candidates(resume: Resume) -> list[str]:
    """The checkpoints that are not the answer, each once."""
    return [*dict.fromkeys(candidate(c) for c in resume.candidates if not is_chosen(c, resume))]


def alternative_head(rival: Alternative) -> str:
    """Class, signature and share of a rival explanation."""
    named = f", {rival.signature}" if rival.signature not in ("", "unknown") else ""
    return f"{rival.class_}{named} ({round(100 * rival.confidence)} %)"


def would_decide(document: Document) -> list[str]:
    """For an undecided case: what to fetch, and the experiment that tells the explanations apart."""
    looks = [a for a in document.actions if a.kind == "read-only"]
    plain = [action for action in looks if not action.command]
    said = [_look(action) for action in (plain if plain or document.alternatives else looks)]
    if not said and not document.alternatives:
        if not document.job.ranks_seen:
            said.append(NO_RANK_KNOWN)
        said.append(
            "No candidate explains it. What settles most such cases: the kernel log of every node around the time "
            "above, the launcher's own output, the scheduler's record of the job."
        )
    return said


def next_steps(document: Document) -> list[Action]:
    """The steps; of an undecided case without those that already stand under what would decide it."""
    if document.verdict.class_ != "unknown":
        return document.actions
    told = set(would_decide(document))
    return [action for action in document.actions if action.command or _look(action) not in told]


def _look(action: Action) -> str:
    return sentence(f"{sentence(action.title)[:-1]}: {action.why}") if action.why else sentence(action.title)
