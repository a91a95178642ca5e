"""Reads flight-recorder dumps, as pickle (without unpickling it) or as JSON, of all versions.

Sources: PyTorch ``torch/csrc/distributed/c10d/FlightRecorder.hpp`` and ``TraceUtils.h``; dumps written by torch 2.13.
Keys that a version lacks are taken as not stated. What is no dump is refused with one sentence.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from correlator.checkpoints.pickles import Ended, read_pickle, read_torn_pickle
from correlator.checkpoints.pickles import Refused as PickleRefused
from correlator.flightrecorder.model import Call, Dump, Group
from correlator.untrusted import is_rank

#: No dump is larger: a ring of 20,000 calls with long stacks has some 100 MB.
MAX_BYTES = 512 << 20

_NAME = re.compile(r"(?:nccl|comm_lib|xccl|gloo|fr)_?(?:trace|dump)_(?:rank_?)?\d{1,7}(?:\.\w{1,8}){0,2}$")
_RANK_IN_NAME = re.compile(r"(\d{1,7})(?:\.(?:json|pkl|pickle|bin|pt|gz|zst|xz|bz2))*$")
_HOST = re.compile(r"[A-Za-z0-9][\w.-]{0,252}", re.ASCII)
_KEYS = rb"(pg_config|collective_seq_id|nccl_comm_state|pg_status|time_discovered_started_ns|profiling_name)"
_JSON_ENTRIES, _NEXT_ENTRY = re.compile(rb'"entries"\s*:\s*\['), re.compile(r"[\s,]*\{")
_PICKLED_KEY, _JSON_KEY = re.compile(_KEYS), re.compile(rb'"' + _KEYS + rb'"\s*:')


class Refused(ValueError):
    """The file is no readable dump; the text says why."""


def is_dump(name: str, head: bytes) -> bool:
    """Whether the file with this name and these first (decompressed) bytes is a dump, whole or torn."""
    base = name.rpartition("/")[2]
    start = head.lstrip()[:1]
    pickled = head[:1] == b"\x80" and (len(head) == 1 or 2 <= head[1] <= 5)
    if not (pickled or start in (b"{", b"")):
        return False
    if _NAME.search(base):
        return True
    # Two keys, since a log may well quote one of the words.
    return bool(start) and len(set((_PICKLED_KEY if pickled else _JSON_KEY).findall(head))) >= 2


def rank_in_name(name: str) -> int | None:
    """The global rank at the end of a dump's name: the writer appends it to a prefix that users may choose."""
    match = _RANK_IN_NAME.search(name.rpartition("/")[2])
    return int(match[1]) if match and is_rank(int(match[1])) else None


def read_dump(data: bytes, name: str) -> Dump:
    """The dump in these bytes, of a torn one what is left. Raises Refused for what is hostile or something else."""
    tree, torn = _tree(data)
    if isinstance(tree, list):  # the first versions wrote the calls alone
        tree = {"entries": tree}
    if not isinstance(tree, dict) or not isinstance(tree.get("entries", []), list | tuple):
        raise Refused("holds no list of calls")
    entries = [e for e in tree.get("entries", ()) if isinstance(e, dict)]
    if not entries and not isinstance(tree.get("pg_config"), dict):
        raise Refused("holds neither calls nor process groups")
    rank = _whole(tree.get("rank"))
    host = tree.get("host_name") or tree.get("hostname")
    dump = Dump(
        rank_in_name(name) if rank is None or not is_rank(rank) else rank,
        _text(tree.get("version")),
        host if isinstance(host, str) and _HOST.fullmatch(host) else None,
        [],
        min((n for e in entries if (n := _whole(e.get("record_id"))) is not None), default=0) > 0,
        torn,
    )
    dump.groups = _groups(entries, _table(tree.get("pg_config")), _table(tree.get("pg_status")), dump)
    return dump


def _tree(data: bytes) -> tuple[Any, bool]:
    """The content, and whether the file ends before it does."""
    if not data.strip():
        raise Refused("is empty")
    if data[:1] == b"\x80":
        try:
            return read_pickle(data)[0], False
        except Ended as error:
            return _left_of(read_torn_pickle(data), error), True
        except PickleRefused as error:
            raise Refused(f"not read: {error}") from error
        except RecursionError as error:
            raise Refused("not read: nested without end") from error
    try:
        return msgspec.json.decode(data), False
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        return _left_of({"entries": _whole_entries(data)}, error), True


def _left_of(tree: Any, error: Exception) -> Any:
    """What is left of a torn dump, if any call is."""
    entries = tree.get("entries") if isinstance(tree, dict) else tree
    if not isinstance(entries, list) or not entries:
        raise Refused(f"not read: {error}") from error
    return tree


def _whole_entries(data: bytes) -> list[Any]:
    """The calls of a JSON dump that ends early, up to the first that is not whole."""
    found: list[Any] = []
    begin = _JSON_ENTRIES.search(data)
    text = data[begin.end() :].decode("utf-8", "replace") if begin else ""
    decoder, at = json.JSONDecoder(), 0
    while entry := _NEXT_ENTRY.match(text, at):
        try:
            value, at = decoder.raw_decode(text, entry.end() - 1)
        except (ValueError, RecursionError):
            break
        found.append(value)
    return found


def _groups(
    entries: Sequence[dict[str, Any]], config: Mapping[Any, Any], status: Mapping[Any, Any], dump: Dump
) -> list[Group]:
    found: dict[str, Group] = {}
    for key, told in config.items():
        name = _text(told.get("name") if isinstance(told, dict) else None) or _text(key)
        if isinstance(told, dict) and name:
            members = _members(told.get("ranks"))
            if not members or dump.rank is None or dump.rank in members:
                found[name] = Group(name, _text(told.get("desc")), members)
    by_name: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        name, desc = _names(entry)
        group = found.setdefault(name, Group(name, desc, ()))
        group.desc = group.desc or desc
        by_name.setdefault(name, []).append(entry)
    for name, group in found.items():
        own = by_name.get(name, [])
        stands = _table(_either(status, own[0].get("pg_id"))) if own else {}
        last = _whole(stands.get("last_completed_collective"))
        mixed = any(entry.get("is_p2p") for entry in own)  # then the status counts both kinds together
        group.calls = [call for entry in own if (call := _call(entry, -1 if mixed or last is None else last))]
        numbers = [call.number for call in group.calls if not call.p2p]
        told_last = None if mixed else _whole(stands.get("last_enqueued_collective"))
        lost = 0 if not dump.overwritten else None
        if dump.torn:  # the newest calls are not there to be counted
            group.enqueued = told_last
        else:
            group.enqueued = max(numbers) if numbers else told_last if told_last is not None else lost
    return list(found.values())


def _call(entry: dict[str, Any], completed_up_to: int) -> Call | None:
    p2p = bool(entry.get("is_p2p"))
    number = _whole(entry.get("p2p_seq_id" if p2p else "collective_seq_id", entry.get("seq_id")))
    backend, _, op = _text(entry.get("profiling_name")).partition(":")
    if number is None or not 0 <= number < 1 << 62:
        return None
    state, done_ns = entry.get("state"), _whole(entry.get("time_discovered_completed_ns"))
    completed = state == "completed" or bool(done_ns) or number <= completed_up_to
    sizes_in, sizes_out = entry.get("input_sizes"), entry.get("output_sizes")
    return Call(
        number,
        (op or backend)[:200],
        p2p,
        _moment(entry.get("time_created_ns")),
        completed or state == "started" or bool(_whole(entry.get("time_discovered_started_ns"))),
        completed,
        # Gloo retires every call as soon as it is recorded.
        not completed and entry.get("retired") is True and backend != "gloo",
        _shape(sizes_in),
        _shape(sizes_out),
        f"{_shape(entry.get('input_dtypes'))} {_shape(entry.get('output_dtypes'))}".strip(),
        _elements(sizes_in),
        _elements(sizes_out),
        _whole(entry.get("timeout_ms")),
    )


def _names(entry: dict[str, Any]) -> tuple[str, str]:
    named = entry.get("process_group")
    if isinstance(named, list | tuple) and named:
        return _text(named[0]), _text(named[1]) if len(named) > 1 else ""
    return _text(entry.get("pg_id", named)), ""


def _either(table: Mapping[Any, Any], key: Any) -> Any:
    """A value by a number that JSON makes a text."""
    return table.get(key, table.get(str(key))) if isinstance(key, int | str) else None


def _members(ranks: Any) -> tuple[int, ...]:
    """Global ranks from ``[0, 1, …]``, which dumps hold as a text."""
    numbers = re.findall(r"\d+", ranks[: 1 << 20]) if isinstance(ranks, str) else ranks
    if not isinstance(numbers, list | tuple):
        return ()
    whole = [n for n in map(_whole, numbers) if n is not None and is_rank(n)]
    return tuple(dict.fromkeys(whole))


def _table(value: Any) -> Mapping[Any, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return str(value)[:200] if isinstance(value, str | int) and not isinstance(value, bool) else ""


def _whole(value: Any) -> int | None:
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,19}", value):
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _moment(value: Any) -> int | None:
    number = _whole(value)
    return number if number is not None and 0 < number < 1 << 63 else None


def _shape(value: Any, depth: int = 0) -> str:
    """Sizes or type names in one short text."""
    if isinstance(value, list | tuple):
        if depth > 3:
            return "…"
        many = [_shape(part, depth + 1) for part in value[:64]]
        return f"[{', '.join(many)}{', …' if len(value) > 64 else ''}]"
    return _text(value)


def _elements(sizes: Any) -> int | None:
    if not isinstance(sizes, list | tuple):
        return None
    tensors = sizes if all(isinstance(t, list | tuple) for t in sizes) else [sizes]
    total = 0
    for tensor in tensors:
        if len(tensor) > 64 or not all(isinstance(n, int) and 0 <= n < 1 << 48 for n in tensor):
            return None
        total += math.prod(tensor)
    return total if total < 1 << 62 else None
