"""The part that a bundle is about, and which events are about it.

A GPU is known by its PCI bus id in any spelling, its index, its UUID or its serial number; what joins them are the
lines that name two of these together.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from correlator.bundle.model import PartKind
from correlator.cascade.model import OF_MACHINES, Facts
from correlator.diagnosis import Document
from correlator.errors import UsageError
from correlator.records import Row
from correlator.timestamps import SECOND

#: Emitters whose lines are about devices and machines, not about the job's processes.
DEVICE_EMITTERS = OF_MACHINES | {"nic"}
_PART_OF: dict[str, PartKind] = {
    "gpu": "gpu", "nvlink": "gpu", "memory": "gpu", "nic": "nic", "network": "nic", "fabric": "switch", "host": "host",
}  # fmt: skip
#: Errors whose address is a GPU's.
_OF_GPUS = ("kernel.xid", "kernel.gpu_lost", "kernel.amdgpu", "gpu.remapped_rows", "gpu.ecc_errors", "gpu.smi_error")
_NAMED_SWITCH = ("kernel.sxid", "fabric_manager.switch_error")
_ADDRESS = re.compile(r"(?:PCI:)?(?:([0-9a-f]{4,8}):)?([0-9a-f]{2}):([0-9a-f]{2})(?:\.[0-7])?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Choice:
    """What the user named; nothing: the part that the diagnosis names."""

    node: str | None = None
    gpu: int | None = None
    pci: str | None = None
    serial: str | None = None

    @property
    def names_gpu(self) -> bool:
        """Whether a GPU is named."""
        return self.gpu is not None or self.pci is not None or self.serial is not None


@dataclass(slots=True)
class Subject:
    """One part of one node. ``node`` None: the logs name no node. ``indices``: numbers that tools give the GPU."""

    kind: PartKind
    node: str | None
    pci: str | None = None
    uuid: str | None = None
    serial: str | None = None
    module: str | None = None
    indices: set[int] = field(default_factory=set)
    device: str | None = None
    is_initiator: bool = False

    def words(self) -> str:
        """The part in a few words."""
        named = {
            "gpu": f"GPU {self.pci or (min(self.indices) if self.indices else '')}".strip(),
            "nic": f"network adapter {self.device or self.pci or ''}".strip(),
            "switch": f"NVSwitch {self.pci or ''}".strip(),
            "host": "the host",
        }[self.kind]
        return f"{named} of {self.node}" if self.node else named

    def known(self, name: str) -> str | None:
        """One of the part's own names, as the lines about its node join them."""
        if name == "index":
            return ", ".join(map(str, sorted(self.indices))) or None
        value: str | None = getattr(self, name)
        return value

    def is_on_node(self, row: Row) -> bool:
        """Whether a row may be about this node."""
        return row.node == self.node or row.node is None or self.node is None

    def _is_named_by(self, row: Row) -> bool:
        """Whether a row states this GPU's own serial number or UUID."""
        return bool(self.serial and row.attr("serial") == self.serial) or bool(
            self.uuid and row.attr("uuid") == self.uuid
        )

    def is_about(self, row: Row) -> bool:
        """Whether a row is about this part: it names it, or it is about the whole machine that is the part."""
        if row.emitter not in DEVICE_EMITTERS:
            return False
        if self.kind == "gpu" and self._is_named_by(row):
            return True  # wherever it sat then: cards are moved between nodes
        if not self.is_on_node(row):
            return False
        if self.kind == "host":
            return row.event.startswith(("kernel.", "bmc.", "host."))
        if self.kind == "nic":
            named = (row.attr("device"), row.attr("nic_pci_bus_id"))
            if not (self.device or self.pci):
                return row.emitter == "nic" or row.event in ("kernel.nic_link", "kernel.mlx5", "kernel.nic_timeout")
            return (self.device is not None and self.device in named) or (self.pci is not None and self.pci in named)
        if row.pci_bus_id:
            return row.pci_bus_id == self.pci and (self.kind == "switch") == (row.event in _NAMED_SWITCH)
        if self.kind != "gpu" or (row.attr("serial") and self.serial) or (row.attr("uuid") and self.uuid):
            return False
        if self.module and row.attr("module"):
            return self.module == row.attr("module")
        return row.emitter == "gpu" and row.gpu is not None and row.gpu in self.indices


def choose_subject(document: Document, facts: Facts, choice: Choice) -> Subject:
    """The part that is meant. Raises UsageError where the logs do not know it or the choice is open."""
    node = _node(document, facts, choice)
    first = facts.topology
    subject = Subject("gpu" if choice.names_gpu else _kind(document), node)
    if choice.names_gpu:
        subject.pci, subject.serial = _pci(choice.pci), choice.serial
        if choice.gpu is not None:
            subject.indices.add(choice.gpu)
    else:
        if node is None or node in document.initiator.nodes:
            _take_initiator(subject, document, facts)
        if subject.kind in ("gpu", "host") and subject.pci is None and not subject.indices:
            subject.pci = _first_accused(facts, node)
            subject.kind = "gpu" if subject.pci else subject.kind
    _join(subject, facts)
    if subject.kind == "gpu" and subject.pci is None and not subject.indices and not subject.serial:
        subject.kind = "host"
    if choice.names_gpu and not any(subject.is_about(row) for row in facts.rows) and not _has_rank_on(subject, facts):
        raise UsageError(f"no line of these logs is about {subject.words()}; {_known_gpus(facts, node)}")
    initiator = document.initiator
    own = [gpu.pci_bus_id for gpu in initiator.gpus]
    subject.is_initiator = (node in initiator.nodes or (node is None and bool(initiator.gpus))) and (
        subject.kind != "gpu" or not own or subject.pci in own
    )
    if subject.pci and subject.kind == "gpu":
        subject.uuid = subject.uuid or first.gpu_uuid.get((node, subject.pci))
        subject.serial = subject.serial or first.gpu_serial.get((node, subject.pci))
    return subject


def _node(document: Document, facts: Facts, choice: Choice) -> str | None:
    nodes = sorted({*facts.topology.nodes, *(row.node for row in facts.rows if row.node)})
    if choice.node is not None:
        named = facts.topology.node_named(choice.node) or (choice.node if choice.node in nodes else None)
        if named is None:
            known = f"they name {', '.join(nodes[:8])}{' …' if len(nodes) > 8 else ''}" if nodes else "they name none"
            raise UsageError(f"no node {choice.node!r} in these logs; {known}")
        return named
    first = document.initiator.nodes
    if len(first) == 1:
        return first[0]
    if len(first) > 1:
        raise UsageError(f"the diagnosis names {len(first)} nodes: {', '.join(first[:8])}; choose one with --node")
    if len(nodes) == 1 or not nodes or document.initiator.gpus:
        return nodes[0] if len(nodes) == 1 else None
    raise UsageError(f"the diagnosis names no node; choose one with --node: {', '.join(nodes[:8])}")


def _kind(document: Document) -> PartKind:
    if document.initiator.gpus and document.verdict.class_ in ("hardware", "unknown"):
        return "nic" if document.verdict.subclass == "network" else "gpu"
    return _PART_OF.get(document.verdict.subclass or "", "host")


def _take_initiator(subject: Subject, document: Document, facts: Facts) -> None:
    """Takes over what the diagnosis says about the part."""
    gpus = [gpu for gpu in document.initiator.gpus if gpu.node in (subject.node, None)]
    first = document.initiator.first_error
    row = next((r for r in facts.rows if first and (r.file, r.byte_offset) == (first.file, first.byte_offset)), None)
    if subject.kind == "gpu" and gpus:
        gpu = gpus[0]
        subject.pci, subject.uuid, subject.serial = gpu.pci_bus_id, gpu.uuid, gpu.serial
        if gpu.index is not None and gpu.pci_bus_id is None:
            subject.indices.add(gpu.index)
    elif subject.kind == "nic" and row is not None:
        subject.device, subject.pci = row.attr("device") or None, row.attr("nic_pci_bus_id") or None
    elif subject.kind == "switch" and row is not None:
        subject.pci = row.pci_bus_id
        if row.event not in _NAMED_SWITCH:
            subject.kind = "gpu" if row.pci_bus_id else "host"


def _first_accused(facts: Facts, node: str | None) -> str | None:
    """The GPU of a node about which the first error is."""
    about = [
        row
        for row in facts.rows
        if row.pci_bus_id and row.node == node and row.severity in ("error", "fatal") and row.event in _OF_GPUS
    ]
    return in_time(about)[0].pci_bus_id if about else None


def _join(subject: Subject, facts: Facts) -> None:
    """Fills the names of a GPU from the lines that state two of them together."""
    if subject.kind != "gpu":
        return
    named = [row for row in facts.rows if subject.is_on_node(row) and row.emitter in ("gpu", "kernel")]
    for _ in range(2):  # an index may lead to a UUID, and that to an address
        for row in named:
            if not (row.attr("uuid") or row.attr("serial") or (row.pci_bus_id and row.event == "gpu.identity")):
                continue
            if not _is_same(subject, row):
                continue
            subject.pci = subject.pci or row.pci_bus_id
            subject.uuid = subject.uuid or row.attr("uuid") or None
            subject.serial = subject.serial or row.attr("serial") or None
            subject.module = subject.module or row.attr("module") or None
            if row.gpu is not None and row.emitter == "gpu":
                subject.indices.add(row.gpu)
    for number, address in _listed_order(named):
        if address == subject.pci:
            subject.indices.add(number)
        elif subject.pci is None and number in subject.indices:
            subject.pci = address
    if subject.pci is None and subject.indices:
        ranks = [r for r in facts.topology.ranks.values() if r.node == subject.node and r.gpu in subject.indices]
        addresses = {rank.pci_bus_id for rank in ranks} - {None}
        subject.pci = addresses.pop() if len(addresses) == 1 else None


def _listed_order(rows: Sequence[Row]) -> Iterator[tuple[int, str]]:
    """Index and address of the devices of a full ``nvidia-smi -q``, which lists all of them in the order of indices."""
    attached = {row.file: row.attr("attached_gpus") for row in rows if row.event == "gpu.driver"}
    listed: dict[str, dict[str, int]] = {}
    for row in sorted(rows, key=lambda r: (r.file, r.byte_offset)):
        if row.event in ("gpu.counters", "gpu.identity") and row.pci_bus_id and row.file in attached:
            devices = listed.setdefault(row.file, {})
            devices.setdefault(row.pci_bus_id, len(devices))
    for file, devices in listed.items():
        if attached[file] == str(len(devices)):
            yield from ((number, address) for address, number in devices.items())


def _is_same(subject: Subject, row: Row) -> bool:
    if subject.pci and row.pci_bus_id:
        return subject.pci == row.pci_bus_id
    if subject.serial and row.attr("serial"):
        return subject.serial == row.attr("serial")
    if subject.uuid and row.attr("uuid"):
        return subject.uuid == row.attr("uuid")
    return row.emitter == "gpu" and row.gpu is not None and row.gpu in subject.indices


def _has_rank_on(subject: Subject, facts: Facts) -> bool:
    ranks = [rank for rank in facts.topology.ranks.values() if rank.node == subject.node]
    return any((subject.pci and r.pci_bus_id == subject.pci) or r.gpu in subject.indices for r in ranks)


def _known_gpus(facts: Facts, node: str | None) -> str:
    known: Iterator[str] = (r.pci_bus_id for r in facts.rows if r.pci_bus_id and r.node == node and r.emitter == "gpu")
    ranks = (r.pci_bus_id for r in facts.topology.ranks.values() if r.pci_bus_id and r.node == node)
    found = sorted({*known, *ranks})
    return f"known there are {', '.join(found[:16])}" if found else "no GPU is known there"


def _pci(text: str | None) -> str | None:
    """``dddd:bb:dd`` for an address as any tool prints it. Raises UsageError for anything else."""
    if text is None:
        return None
    match = _ADDRESS.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"--pci {text!r} is no PCI address such as 0000:cb:00.0")
    return f"{int(match[1] or '0', 16):04x}:{int(match[2], 16):02x}:{int(match[3], 16):02x}"


def rows_about(facts: Facts, subject: Subject) -> list[Row]:
    """All events about the part, by time, then by place; those without a time last."""
    asked = _asked_at(facts)
    return in_time([_dated(row, asked) for row in facts.rows if subject.is_about(row)])


#: What a tool answers when it is asked has the time of the question.
_SNAPSHOTS = ("gpu.counters", "gpu.nvlink_errors")


def _dated(row: Row, asked: dict[str, int]) -> Row:
    if row.event in _SNAPSHOTS and row.time is None and row.file in asked:
        return replace(row, time=asked[row.file], timestamp_basis="printed")
    return row


def _asked_at(facts: Facts) -> dict[str, int]:
    """When nvidia-smi was asked, by file, in ns; its stamp has no zone and is taken as UTC."""
    found: dict[str, int] = {}
    for row in facts.rows:
        if row.event == "gpu.driver" and (stamp := row.attr("asked_at")):
            with suppress(ValueError):
                moment = datetime.strptime(" ".join(stamp.split()), "%a %b %d %H:%M:%S %Y").replace(tzinfo=UTC)
                found.setdefault(row.file, int(moment.timestamp()) * SECOND)
    return found


def in_time(rows: Sequence[Row]) -> list[Row]:
    """Rows by corrected time, then by place; those without a time last."""
    return sorted(rows, key=lambda r: (r.time is None, r.time or 0, r.file, r.byte_offset, r.event))
