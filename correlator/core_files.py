"""Core dumps, which are no logs: whose they are, from the notes at their beginning.

The layout is that of ``struct elf_prstatus`` and ``elf_prpsinfo`` of 64-bit Linux; of other dumps nothing is told.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

#: Bytes in which the notes are looked for; the table of a process's mappings lies in front of them.
CORE_HEAD = 4 << 20

_CORE_TYPE, _NOTE_SEGMENT = 4, 4
_STATUS_NOTE, _PROCESS_NOTE = 1, 3
_SIGNAL_AT, _PID_AT, _NAME_AT, _NAME_SIZE = 12, 24, 40, 16


def is_core(head: bytes) -> bool:
    """Whether the first bytes are those of an ELF core file."""
    return head.startswith(b"\x7fELF") and len(head) >= 18 and head[16 + (head[5] == 2)] == _CORE_TYPE


def core_reason(head: bytes) -> str:
    """Why a core file is not read, with program, process and signal where the notes are among the first bytes."""
    facts = {}
    try:
        for kind, note in _notes(head):
            if kind == _STATUS_NOTE and "signal" not in facts:  # the first one is of the thread that got the signal
                facts["signal"] = str(struct.unpack_from(_order(head) + "h", note, _SIGNAL_AT)[0])
            elif kind == _PROCESS_NOTE:
                facts["pid"] = str(struct.unpack_from(_order(head) + "i", note, _PID_AT)[0])
                facts["name"] = note[_NAME_AT : _NAME_AT + _NAME_SIZE].partition(b"\0")[0].decode("ascii", "replace")
    except struct.error:  # cut off, or of another machine
        pass
    of = f" of {facts['name']}" if facts.get("name", "").isprintable() and facts.get("name") else ""
    told = ", ".join(f"{name} {facts[name]}" for name in ("pid", "signal") if name in facts)
    return f"a core dump{of}{f' ({told})' if told else ''}, no log; gdb reads it"


def _order(head: bytes) -> str:
    return ">" if head[5] == 2 else "<"


def _notes(head: bytes) -> Iterator[tuple[int, bytes]]:
    """Type and content of the kernel's notes."""
    order = _order(head)
    if head[4] != 2:
        return
    (table,) = struct.unpack_from(order + "Q", head, 32)
    entry_size, entries = struct.unpack_from(order + "HH", head, 54)
    for number in range(entries):
        kind, _, start, _, _, size = struct.unpack_from(order + "IIQQQQ", head, table + number * entry_size)
        if kind == _NOTE_SEGMENT:
            break
    else:
        return
    position, end = start, start + size
    while position + 12 <= end:
        name_size, size, kind = struct.unpack_from(order + "III", head, position)
        content = position + 12 + (name_size + 3) // 4 * 4
        if head[position + 12 : position + 16] == b"CORE" and content + size <= len(head):
            yield kind, head[content : content + size]
        position = content + (size + 3) // 4 * 4
