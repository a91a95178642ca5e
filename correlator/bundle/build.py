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

from correlator.bundle import custody
from correlator.bundle.attachments import Attached, attach
from correlator.bundle.bag import MANIFEST, bag_files, write_bag
from correlator.bundle.excerpts import Cut, cut_excerpts, learn_quotes, masked_piece
from correlator.bundle.gathered import Gathered, gather
from correlator.bundle.model import SCHEMA_ID, Attachment, Case, Decision, RedactionRecord
from correlator.bundle.page import render_page
from correlator.bundle.papers import digest_of, json_bytes, readme_of, statement_of
from correlator.bundle.placeholders import Placeholders, read_map, write_map
from correlator.bundle.redaction import Redactor, kinds_at
from correlator.bundle.sources import Sources, UnreadableSource
from correlator.bundle.subject import Choice
from correlator.bundle.timeline import timeline_table
from correlator.diagnosis import to_json
from correlator.errors import CorrelatorError, UsageError
from correlator.event_export import to_csv, to_parquet
from correlator.graph_svg import draw_svg

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
    who = options.operator or Redactor(placeholders, placeholders.kinds).text(f"USER={_user()}").removeprefix("USER=")
    chain = custody.Chain(who, _host_alias(placeholders), _tool())
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
        "Bag-Software-Agent": _tool(),
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
    sources = Sources(diagnosis.facts.ingested.sources)
    found = gather(diagnosis, sources, options.choice, _tool())
    if found.decision.status == "not-hardware":
        if not options.force:
            raise NotHardware(f"{found.decision.headline}: {found.decision.why} --force makes the bundle all the same")
        found.decision.forced = True
    redactor = _redactor(diagnosis, placeholders, sources, found)
    cuts = cut_excerpts(sources, redactor, found.quotes)
    payload = _masked_tables(diagnosis, redactor, found)
    payload |= {cut.excerpt.path: cut.text for cut in cuts}
    excerpts = [msgspec.convert(redactor.data(msgspec.to_builtins(c.excerpt)), type(c.excerpt)) for c in cuts]
    payload["excerpts.jsonl"] = b"".join(msgspec.json.encode(excerpt) + b"\n" for excerpt in excerpts)
    room = options.max_size - sum(map(len, payload.values())) - _PAGE_ROOM
    if room < 0:
        least = (options.max_size - room) / 1e6
        raise UsageError(f"--max-size is too small: without any attachment the bundle has {least:.1f} MB")
    attached = attach(sources, redactor, found.candidates, room, found.problems)
    payload |= {a.attachment.path: a.text for a in attached if a.attachment.path and a.text is not None}
    digests = {a.attachment.file: a.attachment.source_sha256 for a in attached}
    digests |= {cut.excerpt.file: cut.excerpt.source_sha256 for cut in cuts}
    case = _case(found, [a.attachment for a in attached], digests, options.redact, redactor)
    payload["case.json"] = json_bytes(msgspec.to_builtins(case))
    page_cuts = [(excerpt, cut.text) for excerpt, cut in zip(excerpts, cuts, strict=True)]
    payload["report.html"] = render_page(case, page_cuts, payload.get("cascade.svg", b"")).encode()
    payload["README.md"] = readme_of(case).encode()
    payload["statement.json"] = statement_of(payload, case)
    _check_masked(payload, redactor)
    digests = {redactor.text(name): digest for name, digest in digests.items()}
    return case, _Content(payload, cuts, attached, digests, found.problems, found.decision, redactor)


#: Room kept for the page and the case file, in bytes.
_PAGE_ROOM = 400_000


def _redactor(diagnosis: Diagnosis, placeholders: Placeholders, sources: Sources, found: Gathered) -> Redactor:
    """A redactor that has seen every text of the bundle: what is a name in one place is masked in all."""
    redactor = Redactor(placeholders, placeholders.kinds, _hosts(diagnosis))
    learn_quotes(sources, redactor, found.quotes)
    for candidate in found.candidates:
        try:
            masked_piece(sources, redactor, candidate.file, candidate.start, candidate.end)
        except UnreadableSource:
            continue  # said when it is attached
    for row in found.timeline:
        redactor.learn(row.body)
    redactor.learn(to_json(diagnosis.document).decode())
    return redactor


def _masked_tables(diagnosis: Diagnosis, redactor: Redactor, found: Gathered) -> dict[str, bytes]:
    """The timeline, the diagnosis and the picture of the cascade."""
    table = timeline_table(diagnosis.table, found.timeline, redactor)
    files = {
        "timeline.csv": to_csv(table),
        "timeline.parquet": to_parquet(table),
        "diagnosis.json": json_bytes(redactor.data(msgspec.to_builtins(diagnosis.document))),
    }
    if len(diagnosis.graph):
        graph = diagnosis.graph.copy()
        for _, data in graph.nodes(data=True):
            data.update({name: redactor.data(value) for name, value in data.items()})
        files["cascade.svg"] = draw_svg(graph)
    return files


def _case(
    found: Gathered, attachments: list[Attachment], digests: dict[str, str], level: str, redactor: Redactor
) -> Case:
    """The case, masked. ``digests``: SHA-256 of the files that it rests on, by name."""
    notes = []
    if found.more_rows:
        notes.append(f"{found.more_rows:,} more rows about the node are not in the timeline, which holds the gravest.")
    case = Case(
        schema=SCHEMA_ID,
        case_id=_case_id(found.subject.words(), digests),
        part=found.subject.words(),
        part_kind=found.subject.kind,
        decision=found.decision,
        head=found.head,
        labels=found.labels,
        identity=found.identity,
        software=found.software,
        first_fault=found.first_fault,
        why_first=found.why_first,
        collateral=found.collateral,
        counters=found.counters,
        tests=found.tests,
        excluded=found.excluded,
        history=found.history,
        actions_taken=found.actions_taken,
        attachments=attachments,
        redaction=RedactionRecord(level, list(redactor.kinds), {}, redactor.kept()),
        notes=[*notes, *found.problems],
    )
    case = msgspec.convert(redactor.data(msgspec.to_builtins(case)), Case)
    case.redaction.values = redactor.counts() if redactor.kinds else {}
    return case


def _tool() -> str:
    return f"rank-correlator {version('rank-correlator')}"


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
