"""write_bundle(): the bundle of one part, its steps in order.

Choose the part; gather what the logs say about it; judge it; cut the lines and files that prove it; mask; pack.
"""

from __future__ import annotations

import getpass
import platform
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from correlator.bundle import custody, story
from correlator.bundle.attachments import Attached, attach, find_attachments
from correlator.bundle.bag import MANIFEST, bag_files, write_bag
from correlator.bundle.checklist import run_checklist
from correlator.bundle.decision import decide
from correlator.bundle.excerpts import Cut, cut_excerpts, find_quotes, learn_quotes, masked_piece
from correlator.bundle.excluded import other_causes
from correlator.bundle.identity import identity_of, software_of, vendor_of
from correlator.bundle.labels import labels_of
from correlator.bundle.model import SCHEMA_ID, Case, Decision, Head, RedactionRecord
from correlator.bundle.page import render_page
from correlator.bundle.papers import digest_of, json_bytes, readme_of, statement_of
from correlator.bundle.placeholders import Placeholders, read_map, write_map
from correlator.bundle.redaction import Redactor, kinds_at
from correlator.bundle.sources import Sources, UnreadableSource
from correlator.bundle.subject import Choice, choose_subject, in_time, rows_about
from correlator.bundle.timeline import timeline_rows, timeline_table
from correlator.diagnosis import to_json
from correlator.errors import CorrelatorError, UsageError
from correlator.event_export import to_csv, to_parquet
from correlator.graph_svg import draw_svg
from correlator.records import moment
from correlator.report.sayings import job_line
from correlator.timestamps import SECOND

if TYPE_CHECKING:
    from correlator.pipeline import Diagnosis

#: What the payload may have, unless the user says otherwise, in bytes.
MAX_SIZE = 50_000_000


class NotHardware(UsageError):
    """The logs show no hardware fault of the part, and nobody insisted."""


class RedactionFailed(CorrelatorError):
    """A value that has to be masked would be in the bundle; nothing was written."""


@dataclass(frozen=True, slots=True)
class Options:
    """How a bundle is made. ``places``: where the logs are, for the private map; ``max_size`` in bytes."""

    places: tuple[str, ...] = ()
    choice: Choice = field(default_factory=Choice)
    redact: str = "default"
    mask: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    private_map: Path | None = None
    max_size: int = MAX_SIZE
    force: bool = False
    operator: str | None = None


@dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle that was written. ``decision`` is unmasked, for the user; ``private_map`` None: nothing was masked."""

    path: Path
    decision: Decision
    files: int
    bytes: int
    private_map: Path | None
    left_out: list[str]
    problems: list[str]


def write_bundle(diagnosis: Diagnosis, target: Path, options: Options) -> Bundle:
    """Writes the bundle of one part as a folder, or as a zip file where ``target`` ends so.

    Raises UsageError for a choice that the logs do not allow, NotHardware for a part that they do not accuse unless
    ``force`` is set, RedactionFailed where masking would be incomplete. Nothing is left at ``target`` then.
    """
    if target.exists():
        raise UsageError(f"{target} is there already; choose another name, or remove it first")
    if not target.parent.is_dir():
        raise UsageError(f"the folder of {target} does not exist")
    map_path = options.private_map or target.with_name(f"{target.name}.private-map.json")
    placeholders = read_map(map_path) if map_path.exists() else Placeholders()
    placeholders.level, placeholders.kinds = options.redact, kinds_at(options.redact, options.mask, options.keep)
    placeholders.logs = [str(Path(place).resolve()) for place in options.places if Path(place).exists()]
    case, content = _describe(diagnosis, options, placeholders)
    tool = f"rank-correlator {version('rank-correlator')}"
    who = options.operator or Redactor(placeholders, placeholders.kinds).text(f"USER={_user()}").removeprefix("USER=")
    chain = custody.Chain(who, _host_alias(placeholders), tool)
    chain.add("read", content.digests, "original files that are quoted or attached, as found; opened for reading only")
    chain.add("cut", {c.excerpt.path: c.excerpt.sha256 for c in content.cuts}, "excerpts, masked as the case says")
    attached = {a.attachment.path: a.attachment.sha256 or "" for a in content.attached if a.attachment.path}
    chain.add("attach", attached, "raw diagnostic files, masked as the case says")
    chain.add("decide", {"case.json": digest_of(content.payload["case.json"])}, case.decision.status)

    def tags(manifest: bytes) -> dict[str, bytes]:
        chain.add("packed", {MANIFEST: digest_of(manifest)}, f"{len(content.payload)} files")
        rows = chain.to_bytes()
        # Who it was stands there as given; everything else is masked.
        _check_masked({custody.FILE: rows.replace(who.encode(), b"")}, content.redactor)
        return {custody.FILE: rows}

    info = {
        "External-Identifier": case.case_id,
        "External-Description": case.decision.headline,
        "Bag-Software-Agent": tool,
        "Bag-Size": f"{sum(map(len, content.payload.values())):,} bytes",
    }
    files = bag_files(content.payload, info, tags)
    masked = bool(placeholders.kinds)
    write_bag(target, files, beside=(lambda: write_map(map_path, placeholders)) if masked else lambda: None)
    left_out = [f"{a.file}: {a.note}" for a in case.attachments if a.path is None]
    total = sum(map(len, files.values()))
    return Bundle(target, content.decision, len(files), total, map_path if masked else None, left_out, content.problems)


@dataclass
class _Content:
    payload: dict[str, bytes]
    cuts: list[Cut]
    attached: list[Attached]
    digests: dict[str, str]
    problems: list[str]
    decision: Decision
    redactor: Redactor


def _describe(diagnosis: Diagnosis, options: Options, placeholders: Placeholders) -> tuple[Case, _Content]:
    """The case and the payload, everything masked."""
    document, facts = diagnosis.document, diagnosis.facts
    problems: list[str] = []
    sources = Sources(facts.ingested.sources)
    subject = choose_subject(document, facts, options.choice)
    about = rows_about(facts, subject)
    on_node = in_time([row for row in facts.rows if subject.is_on_node(row)])
    vendor = vendor_of(about)
    fault = next((row.time for row in about if row.severity in ("error", "fatal") and row.time is not None), None)
    if subject.is_initiator and document.initiator.time is not None:
        fault = int(document.initiator.time.timestamp() * SECOND)
    candidates = find_attachments(facts, sources, subject, problems)
    identity = identity_of(subject, vendor, about, on_node)
    tests = run_checklist(subject, vendor, about, on_node, candidates, fault)
    decision = decide(document, subject, vendor, about, tests, identity)
    if decision.status == "not-hardware":
        if not options.force:
            raise NotHardware(f"{decision.headline}: {decision.why} --force makes the bundle all the same")
        decision.forced = True
    excluded = other_causes(document, about, on_node, candidates)
    first, past = story.first_fault(document, facts, about), story.history(about, fault)
    taken = story.actions_taken(facts, subject)
    readings = story.counters(about, fault)
    signs = [*first, *past, *taken, *(sign for criterion in decision.criteria for sign in criterion.signs)]
    facts_found = [fact for group in identity for fact in group.facts]
    places = [s.source for s in signs] + [f.source for f in facts_found if f.source] + [r.source for r in readings]
    places += [test.source for test in tests if test.source] + [entry.source for entry in excluded if entry.source]
    cited = {(place.file, place.line) for place in places}
    rows, more = timeline_rows(document, facts, subject)
    quotes = find_quotes(
        sources, diagnosis.table, story.wanted_quotes(document, facts, subject, about, cited), problems
    )

    redactor = Redactor(placeholders, placeholders.kinds, _hosts(diagnosis))
    learn_quotes(sources, redactor, quotes)
    for candidate in candidates:
        try:
            masked_piece(sources, redactor, candidate.file, candidate.start, candidate.end)
        except UnreadableSource:
            continue  # said when it is attached
    for row in rows:
        redactor.learn(row.body)
    redactor.learn(to_json(document).decode())

    cuts = cut_excerpts(sources, redactor, quotes)
    notes = []
    if more:
        notes.append(f"{more:,} more rows about the node are not in the timeline, which holds the gravest.")
    payload: dict[str, bytes] = {}
    table = timeline_table(diagnosis.table, rows, redactor)
    payload["timeline.csv"], payload["timeline.parquet"] = to_csv(table), to_parquet(table)
    payload["diagnosis.json"] = json_bytes(redactor.data(msgspec.to_builtins(document)))
    graph = diagnosis.graph
    if len(graph):
        masked_graph = graph.copy()
        for _, data in masked_graph.nodes(data=True):
            data.update({name: redactor.data(value) for name, value in data.items()})
        payload["cascade.svg"] = draw_svg(masked_graph)
    payload |= {cut.excerpt.path: cut.text for cut in cuts}
    excerpts = [msgspec.convert(redactor.data(msgspec.to_builtins(c.excerpt)), type(c.excerpt)) for c in cuts]
    payload["excerpts.jsonl"] = b"".join(msgspec.json.encode(excerpt) + b"\n" for excerpt in excerpts)
    room = options.max_size - sum(map(len, payload.values())) - _PAGE_ROOM
    if room < 0:
        least = (options.max_size - room) / 1e6
        raise UsageError(f"--max-size is too small: without any attachment the bundle has {least:.1f} MB")
    attached = attach(sources, redactor, candidates, room, problems)
    payload |= {a.attachment.path: a.text for a in attached if a.attachment.path and a.text is not None}
    digests = {a.attachment.file: a.attachment.source_sha256 for a in attached}
    digests |= {cut.excerpt.file: cut.excerpt.source_sha256 for cut in cuts}

    initiator = document.initiator
    head = Head(
        node=subject.node,
        job=job_line(document.job),
        time=moment(fault),
        time_uncertainty_s=initiator.time_uncertainty_s if subject.is_initiator else None,
        clock=story.clock_words(document, subject),
        failure_class=document.verdict.class_,
        signature=document.verdict.signature,
        title=document.verdict.title,
        summary=document.verdict.summary,
        confidence=document.verdict.confidence,
        is_initiator=subject.is_initiator,
        tool=f"rank-correlator {version('rank-correlator')}",
    )
    case = Case(
        schema=SCHEMA_ID,
        case_id=_case_id(subject.words(), digests),
        part=subject.words(),
        part_kind=subject.kind,
        decision=decision,
        head=head,
        labels=labels_of(document, subject, decision, about),
        identity=identity,
        software=software_of(subject, vendor, on_node),
        first_fault=first,
        why_first=story.why_first(document, subject),
        collateral=story.collateral(document),
        counters=readings,
        tests=tests,
        excluded=excluded,
        history=past,
        actions_taken=taken,
        attachments=[a.attachment for a in attached],
        redaction=RedactionRecord(options.redact, list(placeholders.kinds), {}, redactor.kept()),
        notes=[*notes, *problems],
    )
    case = msgspec.convert(redactor.data(msgspec.to_builtins(case)), Case)
    case.redaction.values = redactor.counts() if placeholders.kinds else {}
    payload["case.json"] = json_bytes(msgspec.to_builtins(case))
    page_cuts = [(excerpt, cut.text) for excerpt, cut in zip(excerpts, cuts, strict=True)]
    payload["report.html"] = render_page(case, page_cuts, payload.get("cascade.svg", b"")).encode()
    payload["README.md"] = readme_of(case).encode()
    payload["statement.json"] = statement_of(payload, case)
    _check_masked(payload, redactor)
    digests = {redactor.text(name): digest for name, digest in digests.items()}
    return case, _Content(payload, cuts, attached, digests, problems, decision, redactor)


#: Room kept for the page and the case file, in bytes.
_PAGE_ROOM = 400_000


def _hosts(diagnosis: Diagnosis) -> list[str]:
    """Names of machines in the order of their ranks, then the rest and their other names."""
    topology = diagnosis.topology
    by_rank = [topology.ranks[number].node for number in sorted(topology.ranks)]
    named = [*by_rank, *topology.nodes, *sorted(topology.aliases), *sorted(r.node or "" for r in diagnosis.facts.rows)]
    return [host for host in dict.fromkeys(named) if host and not host.replace(".", "").isdigit()]


def _check_masked(payload: dict[str, bytes], redactor: Redactor) -> None:
    for path, data in sorted(payload.items()):
        if path.endswith(".parquet"):
            continue  # made of the same masked table as the CSV
        if (rule := redactor.leak(data.decode("utf-8", "surrogateescape"))) is not None:
            raise RedactionFailed(f"{path} would still hold {rule}; nothing was written")
        if redactor.leak(path) is not None:
            raise RedactionFailed(f"the name {path} holds what has to be masked; nothing was written")


def _case_id(part: str, digests: dict[str, str]) -> str:
    return f"case-{digest_of(msgspec.json.encode([part, sorted(digests.items())]))[:12]}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _host_alias(placeholders: Placeholders) -> str:
    """This machine's name, masked where host names are."""
    name = platform.node() or "unknown"
    return placeholders.get("host", name) if "host" in placeholders.kinds else name
