"""What one flight-recorder dump says: the process groups of one rank and its last calls in them."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Call:
    """One recorded call. ``number`` is its place in the sequence of the group's collectives, or of its P2P calls.

    ``op`` is the name without the backend (``all_reduce``, ``send 1->2``: group ranks). ``time_ns``: when it was
    enqueued, UTC by the clock of its host. ``completed`` and ``started`` as the recorder knew; ``given_up``: the
    watchdog retired it uncompleted. Sizes and types are texts, equal where the tensors are.
    """

    number: int
    op: str
    p2p: bool
    time_ns: int | None
    started: bool
    completed: bool
    given_up: bool
    sizes_in: str
    sizes_out: str
    dtypes: str
    numel_in: int | None
    numel_out: int | None
    timeout_ms: int | None


@dataclass(slots=True)
class Group:
    """One process group as one rank saw it. ``members`` are global ranks, empty where the dump does not list them.

    ``enqueued``: the number of its last collective; 0 when it never issued one; None when the ring has lost that.
    """

    name: str
    desc: str
    members: tuple[int, ...]
    calls: list[Call] = field(default_factory=list)
    enqueued: int | None = None


@dataclass(slots=True)
class Dump:
    """One dump. ``rank`` is global; ``overwritten``: the ring is full, so older calls are lost.

    ``torn``: the file ends early, so newer calls are lost.
    """

    rank: int | None
    version: str
    host: str | None
    groups: list[Group]
    overwritten: bool
    torn: bool = False
