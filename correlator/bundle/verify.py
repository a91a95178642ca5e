"""Checking a bag: that it is whole, that no byte was changed, and that its excerpts are what the logs say.

Every byte is covered: the payload by its manifest, the manifests and other tag files by the tag manifest, the tag
manifest by being exactly what those files make it, a zip file by the seal at its end.
"""

from __future__ import annotations

import hashlib
import logging
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from correlator.bundle import custody
from correlator.bundle.bag import DECLARATION, MANIFEST, SEAL, SEAL_LENGTH, TAG_MANIFEST, is_zip, manifest_of
from correlator.bundle.excerpts import masked_piece
from correlator.bundle.model import SCHEMA_ID, Attachment, Case, Excerpt
from correlator.bundle.placeholders import Placeholders, read_map
from correlator.bundle.redaction import Redactor
from correlator.bundle.sources import Sources, UnreadableSource
from correlator.discovery import discover
from correlator.errors import CorrelatorError, UsageError

#: A zip file that claims more than this is not unpacked.
_MOST_UNPACKED = 16 << 30
_MOST_MEMBERS = 100_000


@dataclass
class Report:
    """What was checked, what is wrong, and what could not be checked."""

    checked: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def verify_bundle(bundle: Path, *, logs: Sequence[str] = (), private_map: Path | None = None) -> Report:
    """Checks a bag, or a zip file of one; with ``logs`` and the private map also that the excerpts are true.

    Raises UsageError where there is no bundle at all.
    """
    if not bundle.exists():
        raise UsageError(f"{bundle} does not exist")
    report = Report()
    if bundle.is_dir():
        _check_bag(bundle, report)
        _check_logs(bundle, report, logs, private_map)
        return report
    if not is_zip(bundle) and not zipfile.is_zipfile(bundle):
        raise UsageError(f"{bundle} is neither a folder nor a zip file")
    _check_seal(bundle, report)
    with _unpacked(bundle, report) as folder:
        if folder is not None:
            _check_bag(folder, report)
            _check_logs(folder, report, logs, private_map)
    return report


def _check_seal(path: Path, report: Report) -> None:
    data = path.read_bytes()
    body, seal = data[:-SEAL_LENGTH], data[-SEAL_LENGTH:]
    if seal != SEAL + hashlib.sha256(body).hexdigest().encode():
        report.problems.append(
            f"{path.name}: the seal at the end of the zip file does not fit its bytes; it was changed or packed anew"
        )
    else:
        report.checked.append("the seal of the zip file")


@contextmanager
def _unpacked(path: Path, report: Report) -> Iterator[Path | None]:
    """The bag inside a zip file, unpacked into a temporary folder; None where it cannot be."""
    place = Path(tempfile.mkdtemp(prefix="correlator-verify-"))
    try:
        try:
            yield _unpack(path, place)
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError) as fault:
            report.problems.append(f"{path.name} cannot be unpacked: {fault}")
            yield None
        except Exception as fault:  # zlib.error and what other decoders raise
            report.problems.append(f"{path.name} cannot be unpacked: {fault}")
            yield None
    finally:
        shutil.rmtree(place, ignore_errors=True)


def _unpack(path: Path, place: Path) -> Path:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) > _MOST_MEMBERS or sum(m.file_size for m in members) > _MOST_UNPACKED:
            raise ValueError("it claims to hold more than any bundle does")
        for member in members:
            target = (place / member.filename).resolve()
            if not target.is_relative_to(place.resolve()):
                raise ValueError(f"a member lies outside of it: {member.filename}")
            if member.is_dir():
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with archive.open(member) as source, target.open("xb") as copy:
                shutil.copyfileobj(source, copy)
    roots = sorted(place.iterdir())
    if len(roots) != 1 or not roots[0].is_dir():
        raise ValueError("it does not hold exactly one folder")
    return roots[0]


def _check_bag(bag: Path, report: Report) -> None:
    _check_by_library(bag, report)
    files = {p.relative_to(bag).as_posix(): p for p in sorted(bag.rglob("*")) if p.is_file() or p.is_symlink()}
    for name, path in files.items():
        if path.is_symlink():
            report.problems.append(f"{name} is a link, and no file of the bag")
    contents = {name: path.read_bytes() for name, path in files.items() if not path.is_symlink()}
    for name in ("bagit.txt", "bag-info.txt", MANIFEST, TAG_MANIFEST, custody.FILE, "data/case.json"):
        if name not in contents:
            report.problems.append(f"{name} is missing")
    if contents.get("bagit.txt", DECLARATION) != DECLARATION:
        report.problems.append("bagit.txt is not what this tool writes")
    payload = {name: data for name, data in contents.items() if name.startswith("data/")}
    tags = {name: data for name, data in contents.items() if name not in payload and name != TAG_MANIFEST}
    for name, own in ((MANIFEST, payload), (TAG_MANIFEST, tags)):
        if name in contents:
            report.problems += _differences(name, contents[name], manifest_of(own))
    report.checked.append(f"{len(payload)} payload files and {len(tags) + 1} tag files against their digests")
    if custody.FILE in contents:
        steps, problems = custody.read_chain(contents[custody.FILE])
        report.problems += problems
        packed = custody.last_digest(steps, "packed", MANIFEST)
        if packed != hashlib.sha256(contents.get(MANIFEST, b"")).hexdigest():
            report.problems.append(f"{custody.FILE}: the last row is not about this payload")
        report.checked.append(f"{len(steps)} rows of the chain of custody")
    _check_case(payload, report)


def _differences(manifest: str, written: bytes, right: bytes) -> list[str]:
    """What became of each file since the manifest was written; that the manifest itself is wrong where none differs."""
    if written == right:
        return []
    then, now = _digests(written), _digests(right)
    found = [f"{name} is gone" for name in sorted(then.keys() - now.keys())]
    found += [f"{name} is not in {manifest}" for name in sorted(now.keys() - then.keys())]
    found += [f"{name} was changed" for name in sorted(then.keys() & now.keys()) if then[name] != now[name]]
    return found or [f"{manifest} is not written as this tool writes it"]


def _digests(manifest: bytes) -> dict[str, str]:
    """Names and digests of a manifest, which may be damaged."""
    lines = (line.partition("  ") for line in manifest.decode(errors="replace").split("\n") if line)
    return {name: digest for digest, _, name in lines}


def _check_by_library(bag: Path, report: Report) -> None:
    """What the reference implementation of BagIt says."""
    import bagit

    logger = logging.getLogger("bagit")
    silent, logger.disabled = logger.disabled, True  # it tells every problem on the terminal as well
    try:
        bagit.Bag(str(bag)).validate(processes=1)
        report.checked.append("the bag with the library bagit")
    except bagit.BagError as fault:
        report.problems.append(f"bagit: {fault}")
    except Exception as fault:  # a manifest that is no text, a name that is no path: anything may come of damage
        report.problems.append(f"bagit: {type(fault).__name__}: {fault}")
    finally:
        logger.disabled = silent


def _check_case(payload: dict[str, bytes], report: Report) -> None:
    """That every excerpt and attachment that is listed is there with its digest, and nothing else is."""
    try:
        case = msgspec.json.decode(payload.get("data/case.json", b""), type=Case)
        excerpts = read_excerpts(payload.get("data/excerpts.jsonl", b""))
    except msgspec.MsgspecError as fault:
        report.problems.append(f"case.json or excerpts.jsonl cannot be read: {fault}")
        return
    if case.schema != SCHEMA_ID:
        report.problems.append(f"case.json has the schema {case.schema}, and not {SCHEMA_ID}")
    listed = {f"data/{e.path}": e.sha256 for e in excerpts}
    listed |= {f"data/{a.path}": a.sha256 or "" for a in case.attachments if a.path}
    for path, digest in listed.items():
        if path not in payload:
            report.problems.append(f"{path} is listed and missing")
        elif hashlib.sha256(payload[path]).hexdigest() != digest:
            report.problems.append(f"{path} is not what its entry says")
    for path in payload:
        if path.startswith(("data/excerpts/", "data/attachments/")) and path not in listed:
            report.problems.append(f"{path} is not listed")
    report.checked.append(
        f"{len(excerpts)} excerpts and {len(listed) - len(excerpts)} attachments against their entries"
    )


def read_excerpts(data: bytes) -> list[Excerpt]:
    """The rows of ``excerpts.jsonl``. Raises msgspec.MsgspecError."""
    return [msgspec.json.decode(line, type=Excerpt) for line in data.splitlines()]


def _check_logs(bag: Path, report: Report, logs: Sequence[str], private_map: Path | None) -> None:
    """That the excerpts are what their offsets say, if the logs and the private map are there."""
    placeholders = Placeholders()
    if private_map is not None:
        placeholders = read_map(private_map)
    places = list(logs) or [place for place in placeholders.logs if Path(place).exists()]
    if not places:
        report.unchecked.append("the excerpts against the logs: no logs at hand (--logs LOGDIR, --map FILE)")
        return
    try:
        case = msgspec.json.decode((bag / "data/case.json").read_bytes(), type=Case)
        excerpts = read_excerpts((bag / "data/excerpts.jsonl").read_bytes())
    except (OSError, msgspec.MsgspecError):
        return  # said already
    if case.redaction.kinds and not placeholders.kinds:
        report.unchecked.append("the excerpts against the logs: they are masked, and the private map is needed (--map)")
        return
    try:
        sources = Sources(discover(places).files)
    except CorrelatorError as fault:
        report.unchecked.append(f"the excerpts against the logs: {fault}")
        return
    redactor = Redactor(placeholders, case.redaction.kinds)
    names = {redactor.text(name): name for name in sources.names()}
    pieces: list[Excerpt | Attachment] = [*excerpts, *(a for a in case.attachments if a.path)]
    compared = 0
    for piece in pieces:
        name = names.get(piece.file)
        if name is None:
            report.unchecked.append(f"{piece.path}: its file {piece.file} is not among the logs")
            continue
        try:
            if sources.digest(name) != piece.source_sha256:
                report.problems.append(f"{piece.path}: its file {piece.file} is another than then")
                continue
            text = masked_piece(sources, redactor, name, piece.byte_offset, piece.byte_offset + piece.byte_length)
        except UnreadableSource as fault:
            report.unchecked.append(str(fault))
            continue
        if hashlib.sha256(text).hexdigest() != piece.sha256:
            report.problems.append(f"{piece.path} is not what {piece.file} holds at byte {piece.byte_offset}")
        compared += 1
    report.checked.append(f"{compared} excerpts and attachments against the logs")
