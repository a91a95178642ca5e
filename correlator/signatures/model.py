"""One failure signature: what its TOML file may say, checked strictly.

A file under ``data/<emitter>/`` describes one failure: which lines show it, what it means, how to confirm and fix it,
and sample lines that must and must not hit. ``tomllib`` reads it, ``msgspec`` checks types and rejects unknown keys.
"""

from __future__ import annotations

import contextlib
import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePath
from typing import Annotated, Literal

import msgspec

from correlator.diagnosis import StepKind
from correlator.errors import SignatureError
from correlator.signatures.cache import read_cached, write_cached

SignatureClass = Literal["configuration", "application", "hardware", "infrastructure", "unknown"]
#: ``cause``: can be the first event of a failure. ``symptom``: a waiter or survivor says so. ``teardown``: part of
#: shutting down. ``context``: benign or neutral.
SignatureRole = Literal["cause", "symptom", "teardown", "context"]
#: Who the line is about: the writing rank, another rank or host that it names, the writing node, a shared part of the
#: cluster, the scheduler or launcher (no rank), or nobody.
Blames = Literal["self", "peer", "node", "fabric", "storage", "job", "nobody"]
#: ``stable``: seen in a real log. ``test``: in a made one. ``experimental``: from source code alone.
Status = Literal["stable", "test", "experimental"]

CLASSES: tuple[str, ...] = ("configuration", "application", "hardware", "infrastructure", "unknown")
ROLES: tuple[str, ...] = ("cause", "symptom", "teardown", "context")

#: From this priority on a signature speaks about content. Below are fall-backs by exception type or exit code: they
#: leave room for a content match in the later links of an exception chain.
CONTENT_PRIORITY = 20

#: What only looks comes before what changes the next run, and that before what touches a running system.
_STEP_ORDER: tuple[StepKind, ...] = ("read-only", "changes-config", "disruptive")

_Slug = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9]+(-[a-z0-9]+)*$")]
_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a row must show. Every stated condition has to hold; text conditions look at the row's body."""

    event: str | tuple[_Text, ...] = ()
    contains: tuple[_Text, ...] = ()
    all_of: tuple[_Text, ...] = ()
    not_contains: tuple[_Text, ...] = ()
    regex: str = ""
    where: dict[str, int | str | tuple[int | str, ...]] = {}

    @property
    def events(self) -> tuple[str, ...]:
        """Event names to which the signature is limited; empty: any."""
        return (self.event,) if isinstance(self.event, str) else self.event


class Sample(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A raw line or block with invented values that must (``hit``) or must not match."""

    hit: bool
    line: _Text


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One step of the fix. ``command`` may hold the placeholders {node} {rank} {gpu} {pci_bus_id} {pid}.

    ``kind``: it only looks; it changes the job's code, data or settings for the next run; or it touches what runs or
    serves now (a node, a device, a service). ``stopgap``: the job runs again, but the cause stays.
    """

    kind: StepKind
    do: _Text
    why: str = ""
    command: str | None = None
    stopgap: bool = False


class PrintedText(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Another text for the failure: ``…`` stands for a part that varies. ``by``: which program or version prints it."""

    text: _Text
    by: _Text


class Symptom(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One thing that is seen, and why the failure makes it so."""

    sign: _Text
    why: _Text


class Question(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A question that people ask about the failure."""

    ask: _Text
    answer: _Text


class Reference(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page to read on."""

    title: _Text
    url: Annotated[str, msgspec.Meta(pattern=r"^https://[^\s<>\"']+$")]


class Arithmetic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rule about sizes that is worked out on the user's own numbers (``signatures/arithmetic.py``).

    ``whole`` must be a multiple of ``times`` x the product of the sizes ``by``, or with ``equal`` be that product.
    ``by`` lists alternatives: the first whose sizes are all known is taken. ``capture``: expressions whose named groups
    are sizes that the text prints. ``flags``: what sets a size.
    """

    whole: _Text
    by: tuple[tuple[_Text, ...], ...]
    capture: tuple[_Text, ...] = ()
    times: int = 1
    equal: bool = False
    flags: dict[str, str] = {}


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One failure. ``weight``: if this is the causal root, how surely ``class`` is right (0..1).

    ``title``: the text that people paste, or the failure in words. ``emitter``: the folder of the file, who prints it.
    ``priority``: the larger wins when several match one row. ``class_everywhere_at_start``: the class to use when
    nearly all ranks show it before the first training step. ``loss``: how a waiting rank lost the others: its patience
    ran out, or the connection to a peer was gone. ``loses_writes``: an expression for what in the line says that data
    taken for written may not be stored; empty where none is lost. ``sources``: where the facts come from. ``affects``:
    systems and versions. ``lookalikes``: what it is mistaken for; ``apart``: by look-alike, what tells the two apart,
    where the look-alike's own signs do not say it. ``related``: other entries worth reading. ``supersedes``: what this
    one explains when both are about the same ranks or nodes.
    """

    id: _Slug
    emitter: _Slug
    title: _Text
    class_: SignatureClass = msgspec.field(name="class")
    subclass: _Slug
    role: SignatureRole
    blames: Blames
    weight: _Share
    priority: int
    status: Status
    class_everywhere_at_start: SignatureClass | None = None
    loss: Literal["timeout", "peer"] | None = None
    loses_writes: str = ""
    sources: tuple[_Text, ...]
    literals: tuple[PrintedText, ...] = ()
    mechanism: _Text
    observed: str = ""
    symptoms: tuple[Symptom, ...] = ()
    affects: tuple[_Text, ...] = ()
    confirm: tuple[_Text, ...] = ()
    contradicts: tuple[_Text, ...] = ()
    fix: tuple[Step, ...] = ()
    why_it_works: str = ""
    prevention: str = ""
    resume: str = ""
    control: str = ""
    verify: str = ""
    lookalikes: tuple[_Slug, ...] = ()
    apart: dict[_Slug, _Text] = {}
    related: tuple[_Slug, ...] = ()
    supersedes: tuple[_Slug, ...] = ()
    questions: tuple[Question, ...] = ()
    references: tuple[Reference, ...] = ()
    arithmetic: tuple[Arithmetic, ...] = ()
    match: Match
    samples: tuple[Sample, ...] = msgspec.field(name="sample", default=())

    @property
    def inferred(self) -> bool:
        """Whether no line shows it: a finding of the causal rules (a silent rank, a lost node)."""
        return bool(self.match.events) and all(event.startswith("inferred.") for event in self.match.events)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps of the fix in the order in which to take them; of one kind as the file has them."""
        return tuple(sorted(self.fix, key=lambda step: _STEP_ORDER.index(step.kind)))

    @property
    def is_fallback(self) -> bool:
        """Whether it goes by exception type, exit code or the bare fact of an event, not by what is said."""
        return self.priority < CONTENT_PRIORITY

    @property
    def xids(self) -> tuple[int, ...]:
        """NVIDIA's Xid numbers that it is about."""
        # The numbers of NVSwitch errors stand in the same column.
        stated = self.match.where.get("xid", ()) if self.match.events == ("kernel.xid",) else ()
        return tuple(int(number) for number in (stated if isinstance(stated, tuple) else (stated,)))


def parse_signature(text: str, name: str) -> Signature:
    """The signature that a file's ``text`` states; ``name`` is its path, whose folder is the emitter.

    Raises SignatureError naming file and field.
    """
    try:
        stated = tomllib.loads(text)
        if "emitter" in stated:
            raise SignatureError(f"{name}: emitter: is the folder of the file, not a key in it")
        signature = msgspec.convert({**stated, "emitter": PurePath(name).parent.name}, type=Signature)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as fault:
        raise SignatureError(f"{name}: {fault}") from None
    if unlisted := sorted(set(signature.apart) - set(signature.lookalikes)):
        raise SignatureError(f"{name}: apart: {', '.join(unlisted)} is not among the look-alikes")
    if signature.inferred:
        if signature.samples:
            raise SignatureError(f"{name}: sample: an inferred failure has no line of its own")
        return signature
    if {sample.hit for sample in signature.samples} != {True, False}:
        raise SignatureError(f"{name}: sample: needs at least one with hit = true and one with hit = false")
    if not signature.match.events and not signature.match.contains:
        raise SignatureError(f"{name}: match: without `event` it needs `contains`")
    for field, regex in _regexes(signature):
        try:
            re.compile(regex)
        except re.error as fault:
            raise SignatureError(f"{name}: {field}: {fault}") from None
    return signature


def _regexes(signature: Signature) -> Iterator[tuple[str, str]]:
    yield "match.regex", signature.match.regex
    yield "loses_writes", signature.loses_writes
    for rule in signature.arithmetic:
        yield from (("arithmetic.capture", regex) for regex in rule.capture)


def read_signatures(folder: Traversable) -> tuple[Signature, ...]:
    """All signatures of ``folder/<emitter>/<id>.toml``, best first (priority, weight, id).

    Raises SignatureError where a file is malformed, is not named after its id, or repeats one.
    """
    found: dict[str, Signature] = {}
    for emitter in sorted((f for f in folder.iterdir() if f.is_dir()), key=lambda f: f.name):
        for file in sorted((f for f in emitter.iterdir() if f.name.endswith(".toml")), key=lambda f: f.name):
            name = f"{emitter.name}/{file.name}"
            signature = parse_signature(file.read_text(encoding="utf-8"), name)
            if f"{signature.id}.toml" != file.name:
                raise SignatureError(f"{name}: id: is `{signature.id}`, the file's name says otherwise")
            if signature.id in found:
                raise SignatureError(f"{name}: id: `{signature.id}` stands in a second file")
            found[signature.id] = signature
    return tuple(sorted(found.values(), key=lambda s: (-s.priority, -s.weight, s.id)))


@lru_cache(maxsize=1)
def load_signatures() -> tuple[Signature, ...]:
    """All signatures of this package, best first (priority, weight, id). Read once a process.

    Reading hundreds of TOML files takes longer than many a diagnosis, so the result is kept as JSON in the user's cache
    folder: valid for exactly these files and this module, and checked as strictly as they are.
    """
    folder = files("correlator.signatures") / "data"
    digest = sha256(Path(__file__).read_bytes())
    for emitter in sorted((f for f in folder.iterdir() if f.is_dir()), key=lambda f: f.name):
        for file in sorted(emitter.iterdir(), key=lambda f: f.name):
            digest.update(f"\0{emitter.name}/{file.name}\0".encode() + file.read_bytes())
    key = digest.hexdigest().encode()
    name = f"signatures-{sha256(__file__.encode()).hexdigest()[:16]}.json"  # one for each place of installation
    kept_key, _, kept = (read_cached(name) or b"").partition(b"\n")
    if kept_key == key:
        with contextlib.suppress(msgspec.DecodeError):
            return msgspec.json.decode(kept, type=tuple[Signature, ...])
    signatures = read_signatures(folder)
    write_cached(name, key + b"\n" + msgspec.json.encode(signatures))
    return signatures


@lru_cache(maxsize=1)
def by_id() -> dict[str, Signature]:
    """The signatures of this package by id; do not change the mapping."""
    return {signature.id: signature for signature in load_signatures()}
