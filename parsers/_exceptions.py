"""What an event says about an exception, from the tracebacks of its chain."""

from __future__ import annotations

import re

from parsers._frames import describe, in_launcher, own_frame
from parsers._lines import rank_list
from parsers._tracebacks import Stack

#: Longest text in the ``message`` attributes; the body holds more.
MESSAGE_LIMIT = 1000

_LAUNCHER_TYPES = re.compile(r"(?:^|\.)(?:ChildFailedError|SignalException|ProcessExitedException)$")
_STARTS_RANKS = re.compile(r"^Command '?\[?.*python.*(?:--local[-_]rank|\.py\b)")
_WORKER = re.compile(r"^Caught \w+ in DataLoader worker process (\d+)")
#: PyTorch's compiled classes and functions have no frame of their own; the line that calls one names it.
_COMPILED = re.compile(r"\btorch\._C\.([A-Z]\w+)\(")
_RAY_TASK = re.compile(r"\bray::\S+ \(pid=(\d+), ip=([\w.:]+)")
_CHECKPOINT_RANKS = re.compile(r"ranks:dict_keys\(\[([\d, ]*)\]\)")


def outer_exception(head: Stack) -> Stack | None:
    """The exception that the process ended with, where it is not the one that was raised first."""
    after = [s for s in head.below() if s.link == "after"]
    if after:
        return after[-1]
    return head if head.root() is not head else None


def exception_fields(head: Stack) -> dict[str, object]:
    """Attributes of one chain of exceptions.

    ``type`` and ``message`` (its first line) are of the exception raised first, ``outer_type`` and ``outer_message`` of
    the last one of a chain. ``frames``, ``site``, ``call_text``, ``call``: see ``_frames.describe``. ``compiled``:
    PyTorch's compiled class, such as ``PyTorchFileReader``, that raised it. ``worker``: number of the DataLoader worker
    it comes from. ``remote_ranks``: the ranks that a distributed checkpoint says failed, as ``3,5``. ``local_rank``:
    the number that ``torch.multiprocessing.spawn`` gave the process. ``pid``, ``node``: of the Ray task that raised it.
    ``launcher``: ``true`` if the launcher, not a rank, raised it.
    """
    stacks = head.below()
    root, outer = head.root(), outer_exception(head)
    fields: dict[str, object] = {"type": root.type or "unknown", "message": root.message[:MESSAGE_LIMIT]}
    fields |= describe(root.frames, message=root.message)
    if root.frames and (compiled := _COMPILED.search(root.frames[-1].code)):
        fields["compiled"] = compiled[1]
    if outer is not None:
        fields |= {"outer_type": outer.type or "unknown", "outer_message": outer.message[:MESSAGE_LIMIT]}
        if own_frame(root.frames) is None and own_frame(outer.frames) is not None:
            # A chained block has only the frames below the `try`; the job's own code stands in the later block.
            fields |= {k: v for k, v in describe(outer.frames).items() if k in ("site", "call_text")}
    for name, pattern in (("worker", _WORKER), ("remote_ranks", _CHECKPOINT_RANKS)):
        told = next((m[1] for s in stacks if (m := pattern.search(s.message))), None)
        if told is not None:
            fields[name] = rank_list(told)
    tasks = [m for s in stacks if (m := _RAY_TASK.search(s.message))]
    if tasks:  # the innermost is the one that raised
        fields |= {"pid": tasks[-1][1], "node": tasks[-1][2]}
    spawned = next((s.spawned for s in stacks if s.spawned is not None), None)
    if spawned is not None:
        fields["local_rank"] = spawned
    last = outer or root
    frames = [frame for s in stacks if s.link != "inside" for frame in s.frames]
    starts_ranks = last.type.endswith("CalledProcessError") and _STARTS_RANKS.search(last.message)
    if in_launcher(frames) or _LAUNCHER_TYPES.search(last.type) or starts_ranks:
        fields["launcher"] = "true"
    return fields
