"""The roster of a job: ranks, nodes, GPUs, and the maps the later stages join on."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from correlator.grid import Grid

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")

#: Host names that tell nothing.
LOCAL_NAMES = frozenset({"localhost", "localhost.localdomain", "127.0.0.1", "::1", "(none)", ""})


def short_name(host: str) -> str:
    """The short name of a host (``gpu-a017.example.net`` -> ``gpu-a017``); an address stays whole."""
    host = host.strip().strip("[]()'\",")
    return host if re.fullmatch(r"[\d.]+|[\da-fA-F:]*:[\da-fA-F:.]*", host) else host.split(".")[0]


def is_name(host: str) -> bool:
    """Whether a host can have this name: commands are built from names, and ``--help`` or ``..`` would be obeyed."""
    return len(host) <= 253 and re.fullmatch(r"(?:[A-Za-z0-9]|::)[\w.:-]*", host, re.ASCII) is not None


def _grouped(pairs: Iterable[tuple[_Key, _Value]]) -> dict[_Key, list[_Value]]:
    groups: dict[_Key, list[_Value]] = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups


@dataclass(slots=True)
class Rank:
    """One global rank of the roster. ``collected``: some writer of the logs is this rank or its node's launcher."""

    rank: int
    node: str | None = None
    local_rank: int | None = None
    pids: set[int] = field(default_factory=set)
    gpu: int | None = None
    pci_bus_id: str | None = None
    collected: bool = False
    heard: bool = False
    last_ns: int | None = None
    last_step: int | None = None
    last_place: tuple[str, int, int, str] | None = None


HIGHEST_SEEN = "highest rank seen"
"""Basis of a world size that nothing states: there may be more ranks whose logs are missing."""


@dataclass
class Topology:
    """The roster and the maps the later stages join on."""

    world_size: int | None = None
    world_size_basis: str = ""
    nodes: list[str] = field(default_factory=list)
    ranks: dict[int, Rank] = field(default_factory=dict)
    nproc_per_node: int | None = None
    grid: Grid | None = None
    node_of_file: dict[str, str] = field(default_factory=dict)
    base_of_node: dict[str, int] = field(default_factory=dict)
    rank_of_pid: dict[tuple[str | None, int], int] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    collected_nodes: set[str] = field(default_factory=set)
    tasks_are_ranks: bool = False
    contradictions: list[str] = field(default_factory=list)
    gpu_uuid: dict[tuple[str | None, str], str] = field(default_factory=dict)
    gpu_serial: dict[tuple[str | None, str], str] = field(default_factory=dict)

    def ranks_on(self, node: str) -> list[int]:
        """The global ranks on a node, in order; to be asked when the roster is complete."""
        return self._by_node.get(node, [])

    @cached_property
    def _by_node(self) -> dict[str | None, list[int]]:
        return _grouped((known.node, rank) for rank, known in sorted(self.ranks.items()))

    @cached_property
    def _by_pid(self) -> dict[int, list[tuple[str | None, int]]]:
        return _grouped((pid, (node, rank)) for (node, pid), rank in self.rank_of_pid.items())

    @cached_property
    def _by_bus(self) -> dict[str | None, list[int]]:
        return _grouped((known.pci_bus_id, rank) for rank, known in self.ranks.items())

    def node_of_rank(self, rank: int) -> str | None:
        """The node of a rank, if known."""
        known = self.ranks.get(rank)
        return known.node if known else None

    def nodes_of(self, ranks: Iterable[int]) -> list[str]:
        """The distinct known nodes of some ranks, sorted."""
        return sorted({n for r in ranks if (n := self.node_of_rank(r))})

    def node_named(self, name: str | None) -> str | None:
        """The node that a host name, address or alias means, if it is one of this job's."""
        if not name:
            return None
        name = short_name(name)
        name = self.aliases.get(name, name)
        return name if name in self.nodes else None

    def rank_for_pid(self, node: str | None, pid: int | None) -> int | None:
        """The rank with this pid on this node; without a node only if the pid is the same rank everywhere."""
        if pid is None:
            return None
        if (node, pid) in self.rank_of_pid:
            return self.rank_of_pid[node, pid]
        same = {rank for where, rank in self._by_pid.get(pid, ()) if node is None or where is None}
        return same.pop() if len(same) == 1 else None

    def rank_for_gpu(self, node: str | None, pci_bus_id: str | None) -> int | None:
        """The rank that drives this device; without a node only if the job has one node."""
        if not pci_bus_id:
            return None
        on_bus = self._by_bus.get(pci_bus_id, ())
        found = {rank for rank in on_bus if node is None or self.ranks[rank].node == node}
        return found.pop() if len(found) == 1 else None
