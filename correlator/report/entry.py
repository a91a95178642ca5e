"""The page of one entry as plain values, for every form: terminal, Markdown, HTML."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from correlator.diagnosis import Action
from correlator.lookup import Explained
from correlator.signatures import Signature, Step, by_id, load_signatures
from correlator.signatures.catalog import xid_catalog

#: Names of the folders of the entries: who prints the lines.
EMITTERS = {
    "amd": "AMD GPUs and ROCm",
    "batch": "other batch systems and clouds",
    "checkpoint": "checkpoints",
    "cuda": "CUDA",
    "dataloader": "data loaders",
    "deepspeed": "DeepSpeed",
    "fabric": "NVSwitch and fabric manager",
    "frameworks": "Lightning, Ray, vLLM, JAX and other frameworks",
    "gpu": "GPU diagnostics",
    "host": "hosts",
    "inferred": "findings without a line of their own",
    "kernel": "NVIDIA driver (Xid)",
    "kubernetes": "Kubernetes",
    "megatron": "Megatron-LM",
    "mpi": "MPI and remote shells",
    "nccl": "NCCL",
    "nic": "network adapters",
    "numerics": "numerics",
    "python": "Python",
    "rendezvous": "rendezvous",
    "slurm": "Slurm",
    "storage": "storage",
    "torch": "PyTorch",
}
_BLAMES = {
    "self": "the rank that writes the line",
    "peer": "another rank or host, which the line names",
    "node": "the node that writes the line",
    "fabric": "the network between the nodes",
    "storage": "the storage",
    "job": "the scheduler or launcher, no rank",
    "nobody": "nobody",
}
_WITHOUT_CAUSE = {
    "symptom": "No cause by itself: a waiter or a survivor says it. Look for what came first, on all ranks and nodes.",
    "teardown": "No cause: part of shutting down. What failed was said before it.",
    "context": "No failure by itself.",
}
_AS_CAUSE = {
    "configuration": "The cause if nothing failed before it: the configuration is at fault.",
    "application": "The cause if nothing failed before it: the program or its data is at fault.",
    "hardware": "The cause if nothing failed before it: hardware is at fault.",
    "infrastructure": "The cause if nothing failed before it: what the job runs on is at fault, not the job.",
    "unknown": "The failure began here if nothing failed before it; whose fault it is, the line alone does not say.",
}
_STATUS = {
    "stable": "seen in a real log",
    "test": "seen in a made log",
    "experimental": "known from source code alone",
}
_RIVALS_SHOWN = 5
_SAMPLES_SHOWN = 2
#: What a report fills in from the log; a page has no log.
_PLACEHOLDER = re.compile(r"(?<!\$)\{(node|rank|gpu|pci_bus_id|pid)\}")


@dataclass(frozen=True)
class Linked:
    """Another entry, and what tells it apart or how it is related."""

    entry: Signature
    why: str = ""


@dataclass(frozen=True)
class Part:
    """A section of a page; what is not empty of it is shown in the order of the fields."""

    title: str
    prose: tuple[str, ...] = ()
    bullets: tuple[str, ...] = ()
    #: Two columns, under ``head``.
    rows: tuple[tuple[str, str], ...] = ()
    head: tuple[str, str] = ("", "")
    steps: tuple[Action, ...] = ()
    lines: tuple[str, ...] = ()
    linked: tuple[Linked, ...] = ()
    #: Title and address.
    links: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return any((self.prose, self.bullets, self.rows, self.steps, self.lines, self.linked, self.links))


def in_short(entry: Signature) -> tuple[str, ...]:
    """What the line means for the reader, and where to begin: two sentences."""
    meaning = _WITHOUT_CAUSE.get(entry.role) or _AS_CAUSE[entry.class_]
    step = _spelt(entry.steps[0].do).rstrip(".") if entry.fix else ""
    return meaning, *([f"Begin with: {step}" + ("" if step.endswith("?") else ".")] if step else [])


def facts_line(entry: Signature) -> str:
    """Class, subject and role in one line."""
    return f"{entry.class_}, {entry.subclass}, {entry.role}"


def about_line(entry: Signature) -> str:
    """Whom the line is about, who prints it, how well it is known."""
    return f"about: {_BLAMES[entry.blames]}; printed by: {EMITTERS[entry.emitter]}; {_STATUS[entry.status]}"


def entry_parts(found: Explained) -> list[Part]:
    """The sections of the page, those that hold something."""
    return [part for part in _parts(found) if part]


def _parts(found: Explained) -> Iterator[Part]:
    entry = found.entry
    if found.numbers:
        yield Part("Your numbers", prose=tuple(found.numbers))
    yield Part("In short", prose=(" ".join(in_short(entry)),))
    catalog = xid_catalog()
    said = (catalog[xid].sentence(xid) if xid in catalog else f"Xid {xid}: not listed" for xid in found.xids)
    yield Part("NVIDIA's catalog says", bullets=tuple(said))
    yield Part("What happens", prose=_some(entry.mechanism))
    yield Part(
        "What you see",
        prose=_some(entry.observed),
        rows=tuple((symptom.sign, symptom.why) for symptom in entry.symptoms),
        head=("sign", "why"),
    )
    yield Part(
        "Also printed as", rows=tuple((other.text, other.by) for other in entry.literals), head=("text", "printed by")
    )
    yield Part("How it looks in a log", lines=_samples(entry, hit=True))
    yield Part("Looks like it, but is not", lines=_samples(entry, hit=False)[:1])
    yield Part("Affects", bullets=entry.affects)
    yield Part("It is this if", bullets=entry.confirm)
    yield Part("It is something else if", bullets=entry.contradicts)
    yield Part("The one experiment", prose=_some(_spelt(entry.control)))
    yield Part("Fix", prose=_some(_own_values(entry)), steps=tuple(map(_action, entry.steps)))
    yield Part("Why that works", prose=_some(entry.why_it_works))
    yield Part("Fixed when", prose=_some(entry.verify))
    yield Part("Resume", prose=_some(entry.resume))
    yield Part("Prevention", prose=_some(entry.prevention))
    yield Part("Easily taken for it", linked=tuple(_lookalikes(found)))
    yield Part("Related", linked=tuple(_related(entry)))
    yield Part("Questions", rows=tuple((each.ask, each.answer) for each in entry.questions))
    yield Part("Read on", links=tuple((page.title, page.url) for page in entry.references))
    yield Part("Sources", bullets=entry.sources)


def _some(text: str) -> tuple[str, ...]:
    return (text,) if text else ()


def _samples(entry: Signature, hit: bool) -> tuple[str, ...]:
    return tuple(sample.line.strip("\n") for sample in entry.samples if sample.hit == hit)[:_SAMPLES_SHOWN]


def _action(step: Step) -> Action:
    return Action.of(step.kind, _spelt(step.do), step.command and _spelt(step.command), step.why, step.stopgap)


def _spelt(text: str) -> str:
    """``text`` with placeholders as capital words: braces would be read as the shell's."""
    return _PLACEHOLDER.sub(lambda match: match[1].upper(), text)


def _own_values(entry: Signature) -> str:
    texts = " ".join([*(f"{step.do} {step.command or ''}" for step in entry.fix), entry.control])
    names = dict.fromkeys(name.upper() for name in _PLACEHOLDER.findall(texts))
    return f"Put your own values for {', '.join(names)}." if names else ""


def _lookalikes(found: Explained) -> Iterator[Linked]:
    entry = found.entry
    for id_ in dict.fromkeys([*(rival.id for rival in found.rivals[:_RIVALS_SHOWN]), *entry.lookalikes]):
        other = by_id()[id_]
        sign = other.confirm[0] if other.confirm else _spelt(other.control)
        yield Linked(other, entry.apart.get(id_) or (f"It is that if: {sign}" if sign else ""))


@lru_cache(maxsize=1)
def _named_by() -> dict[str, list[str]]:
    """By entry, the others that name it as a look-alike or as related."""
    found: dict[str, list[str]] = defaultdict(list)
    for entry in sorted(load_signatures(), key=lambda s: s.id):
        for other in {*entry.lookalikes, *entry.related}:
            found[other].append(entry.id)
    return found


def _related(entry: Signature) -> Iterable[Linked]:
    names = dict.fromkeys([*entry.related, *_named_by().get(entry.id, ())])
    return (Linked(by_id()[name]) for name in names if name not in entry.lookalikes)
