"""Who the part is: every value with the line that states it, or with the command that would give it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import msgspec

from correlator.bundle.matching import fact, load_data
from correlator.bundle.model import Fact, FactGroup, PartKind, Place
from correlator.bundle.subject import Subject
from correlator.records import Row


class _Wanted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"from_": "from"}):
    name: str
    from_: list[str]
    missing: str
    vendors: list[str] = []
    known: str = ""
    amd: str = ""


class _Group(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    parts: list[PartKind]
    scope: str
    facts: list[_Wanted]


def identity_of(subject: Subject, vendor: str, about: Sequence[Row], on_node: Sequence[Row]) -> list[FactGroup]:
    """The identity of the part and of its machine. ``about``: rows about the part; ``on_node``: about its node."""
    groups = msgspec.convert(load_data("identity")["group"], list[_Group])
    found = [
        FactGroup(
            group.title,
            [
                _found(wanted, about if group.scope == "part" else on_node, subject, vendor)
                for wanted in group.facts
                if vendor != "amd" or group.scope == "node" or wanted.amd
            ],
        )
        for group in groups
        if subject.kind in group.parts
    ]
    return [group for group in found if group.facts]


def software_of(subject: Subject, vendor: str, on_node: Sequence[Row]) -> list[Fact]:
    """Versions of the software on the node. ``vendor`` of the part: nvidia, amd, or empty where it is not known."""
    wanted = msgspec.convert(load_data("identity")["software"], list[_Wanted])
    return [_found(entry, on_node, subject, vendor) for entry in wanted if vendor in entry.vendors]


def vendor_of(about: Sequence[Row]) -> str:
    """Who made the part, as far as its lines tell: nvidia, amd, or empty."""
    for row in about:
        if row.event in ("kernel.amdgpu", "gpu.hsa_fault") or "AMD" in row.attr("model"):
            return "amd"
        if row.event in ("kernel.xid", "kernel.sxid", "kernel.gpu_identity", "kernel.gpu_lost", "gpu.counters") or (
            "NVIDIA" in row.attr("model") or row.attr("uuid").startswith("GPU-")
        ):
            return "nvidia"
    return ""


def filled(command: str, subject: Subject) -> str:
    """A command with the part's names, quoted for a shell; what is not known stays in capitals to be filled in."""
    index = str(min(subject.indices)) if subject.indices else None
    for name, value in (
        ("node", subject.node), ("pci", subject.pci), ("device", subject.device), ("gpu", index),
    ):  # fmt: skip
        command = command.replace("{" + name + "}", shlex.quote(value) if value else name.upper())
    return command


def _found(wanted: _Wanted, rows: Sequence[Row], subject: Subject, vendor: str) -> Fact:
    """The values that the most trusted kind of line states; several where a part was exchanged."""
    for source in wanted.from_:
        event, _, name = source.partition(":")
        stated = [(fact(row, name), row) for row in rows if row.event == event and fact(row, name)]
        if stated:
            values = list(dict.fromkeys(value for value, _ in stated))
            return Fact(wanted.name, ", then ".join(values[:3]), Place(stated[0][1].file, stated[0][1].line))
    if wanted.known and (value := subject.known(wanted.known)):
        return Fact(wanted.name, value)
    command = wanted.amd if vendor == "amd" and wanted.amd else wanted.missing
    return Fact(wanted.name, None, missing=filled(command, subject))
