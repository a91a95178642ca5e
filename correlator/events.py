"""The event table: what every parser gives and every later stage reads.

One row is one occurrence worth keeping (a flood of equal lines is one row with ``count``). Rows carry the place they
were read from (``file``, ``line``, ``byte_offset``), so that the raw text can always be shown again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pyarrow as pa

Severity = Literal["info", "warning", "error", "fatal"]

#: How the time of a row was obtained. ``printed``: on the line itself. ``transport``: only the collector stamped it.
#: ``inherited``: the last stamped line of the same writer before it. ``boot-relative``: seconds since boot plus a boot
#: time. ``file-time``: from the modification time. ``none``: no time at all.
TIMESTAMP_BASES = ("printed", "transport", "inherited", "boot-relative", "file-time", "none")


def _column(name: str, kind: pa.DataType, about: str, unit: str = "") -> pa.Field:
    return pa.field(name, kind, metadata={"about": about, "unit": unit})


_ns = pa.timestamp("ns", tz="UTC")

#: The schema of the event table. Null means "not stated by the log".
SCHEMA: pa.Schema = pa.schema(
    [
        # when
        _column("timestamp", _ns, "time as printed, normalised to UTC", "ns"),
        _column("timestamp_basis", pa.string(), "one of TIMESTAMP_BASES"),
        _column("timestamp_resolution_ns", pa.int64(), "finest step that the printed stamp can tell", "ns"),
        _column("time", _ns, "timestamp after clock correction; filled by the clock stage", "ns"),
        _column("time_bound_ns", pa.int64(), "half width of what the clock stage leaves open; null: unbounded", "ns"),
        # who
        _column("node", pa.string(), "node name; filled or corrected by the topology stage"),
        _column("node_basis", pa.string(), "where node comes from: line, envelope, path, topology"),
        _column("rank", pa.int32(), "global rank; filled or corrected by the topology stage"),
        _column("rank_basis", pa.string(), "where rank comes from: line, envelope, path, topology"),
        _column("local_rank", pa.int32(), "rank on its node, as the launcher numbers them"),
        _column("group_rank", pa.int32(), "rank inside process_group"),
        _column("task", pa.int32(), "task number of the launcher's label (srun -l, mpirun tag); not yet a rank"),
        _column("process_group", pa.string(), "name shared by all members, with its description where printed"),
        _column("pid", pa.int64(), "process id of the one the line is about"),
        _column("gpu", pa.int32(), "device index as the process sees it"),
        _column("pci_bus_id", pa.string(), "dddd:bb:dd, lower case"),
        _column("attempt", pa.int32(), "restart number, from 0; null: not stated"),
        _column("writer", pa.string(), "who wrote the line: file plus the identity on its envelopes"),
        # what
        _column("event", pa.string(), "emitter.what_happened"),
        _column("severity", pa.string(), "info, warning, error, fatal"),
        _column("body", pa.string(), "text after the envelopes, at most BODY_LIMIT characters"),
        _column("signature", pa.string(), "id of the failure signature that the row matched"),
        _column("count", pa.int64(), "how many equal lines this row stands for"),
        _column("last_timestamp", _ns, "timestamp of the last of them", "ns"),
        # numbers used by inference
        _column("seq", pa.int64(), "sequence number of the collective in its process group"),
        _column("op", pa.string(), "collective operation"),
        _column("numel_in", pa.int64(), "elements in"),
        _column("numel_out", pa.int64(), "elements out"),
        _column("timeout_ms", pa.int64(), "the limit that ran out", "ms"),
        _column("elapsed_ms", pa.int64(), "how long the operation ran", "ms"),
        _column("last_enqueued", pa.int64(), "last collective enqueued"),
        _column("last_completed", pa.int64(), "last collective completed"),
        _column("step", pa.int64(), "training iteration"),
        _column("exit_code", pa.int32(), "exit code, negative for a signal where the launcher prints it so"),
        _column("signal", pa.int32(), "signal number"),
        _column("xid", pa.int32(), "Xid or SXid number"),
        _column("peer", pa.string(), "the other side that the line names: host, address, rank"),
        # where
        _column("file", pa.string(), "path relative to LOGDIR, with / separators"),
        _column("line", pa.int64(), "line number, from 1, counting LF only"),
        _column("byte_offset", pa.int64(), "offset of the line's first byte (in the decompressed stream)", "byte"),
        _column("byte_length", pa.int64(), "length of the text the row was made from", "byte"),
        # rest
        _column("attributes", pa.map_(pa.string(), pa.string()), "everything else that the parser captured"),
    ]
)

COLUMNS: frozenset[str] = frozenset(SCHEMA.names)

#: Longest text kept in ``body``.
BODY_LIMIT = 4096
#: Attribute of a line that stands for equal ones of other processes, which their printer dropped.
STANDS_FOR_OTHERS = "stands_for_others"


@dataclass(frozen=True, slots=True)
class Found:
    """One event that a block parser found: which lines it covers and what it captured.

    ``first`` and ``last`` are indices into the lines handed to the block parser (the row's place is that of ``first``;
    ``at`` moves it to another line, e.g. the final line of a traceback). ``fields`` are columns or attributes; values
    may be strings, they are cast to the column's type.
    """

    first: int
    last: int
    fields: Mapping[str, object] = field(default_factory=dict)
    body: str | None = None
    event: str | None = None
    at: int | None = None


#: Gets the peeled texts of the lines of ONE writer from the candidate line on (index 0 is the candidate) and gives the
#: events found in them; lines up to the largest ``last`` are not offered again to the same pattern.
BlockParser = Callable[[Sequence[str]], Sequence[Found]]


@dataclass(frozen=True, slots=True)
class Pattern:
    """One thing an emitter prints.

    ``literals``: at least one of these plain ASCII substrings stands in every line meant; they drive the byte scan.
    ``regex`` (Python ``re``, no look-around and no back-references) is searched in the text that is left after the
    envelopes were peeled; named groups become columns where the name is one (cast to the column's type) and attributes
    otherwise. ``fields`` are constants to add. ``block`` reads a multi-line form instead of ``regex``.
    ``block_lines``: how many following lines of the same writer it may need. ``sparse``: frequent and benign lines
    (progress); only the first and last ones of every chunk are kept.
    ``sample`` is a real line (or block) that must give the event; ``not_samples`` are look-alikes that must not.
    """

    event: str
    literals: tuple[str, ...]
    regex: str = ""
    sample: str = ""
    severity: Severity = "error"
    fields: Mapping[str, object] = field(default_factory=dict)
    block: BlockParser | None = None
    block_lines: int = 200
    sparse: bool = False
    not_samples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Parser:
    """All patterns of one emitter. Patterns are tried in order; the first that matches a line takes it."""

    name: str
    patterns: tuple[Pattern, ...]
