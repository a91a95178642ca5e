"""Logs at an address that fsspec opens (``s3://bucket/logs``), copied to the temporary folder.

Objects are fetched whole and many at once. Large ones are looked at first, so that a checkpoint among the logs is not
fetched.
"""

from __future__ import annotations

import re
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from correlator.containers.spool import Spool
from correlator.containers.unpack import Contents, Member, Refuse, harmless_name
from correlator.errors import UsageError
from correlator.reading import SNIFF_BYTES

#: Larger objects are looked at before they are fetched, in bytes.
LOOK_FIRST = 8 << 20

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+(?:://|::)")
#: Distributions that open the addresses people have logs at, where it is not fsspec itself.
_PACKAGES = {"s3": "s3fs", "s3a": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "abfs": "adlfs", "az": "adlfs"}
_TIMES = ("LastModified", "last_modified", "mtime", "modified", "updated", "created")


def is_url(place: str) -> bool:
    """True for an address, as opposed to a path."""
    return _URL.match(place) is not None


def local_path(url: str) -> Path | None:
    """The path that a ``file://`` address means; None for any other."""
    return Path(unquote(urlsplit(url).path)) if url.startswith("file://") else None


@dataclass(frozen=True, slots=True)
class _Object:
    address: str
    name: str
    size: int
    mtime_ns: int


def fetch(url: str, spool: Spool, refuse: Refuse) -> Contents:
    """All objects at or below the address. Raises UsageError when it cannot be opened."""
    system, objects = _listing(url)
    contents = Contents()
    heads = _heads(system, [o for o in objects if o.size > LOOK_FIRST])
    wanted = []
    for thing in objects:
        why = refuse(thing.name, heads.get(thing.address, b""))
        if why is None:
            wanted.append((thing, spool.new_path()))
        else:
            contents.left_out.append((thing.name, why))
    if wanted:
        _check_room(url, sum(thing.size for thing, _ in wanted), wanted[0][1].parent)
    _get(system, wanted)
    for thing, path in wanted:
        if path.is_file():
            contents.members.append(Member(thing.name, path, path.stat().st_size, thing.mtime_ns))
        else:
            contents.left_out.append((thing.name, "could not be fetched"))
    return contents


def _listing(url: str) -> tuple[Any, list[_Object]]:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise UsageError(f"{url} needs the extra `remote`: pip install 'rank-correlator[remote]'") from None
    try:
        system, root = url_to_fs(url)
        found = system.find(root, detail=True)
    except ImportError as error:
        package = _PACKAGES.get(url.partition(":")[0])
        hint = f"pip install 'rank-correlator[remote]' {package}" if package else str(error)
        raise UsageError(f"{url} cannot be opened yet: {hint}") from error
    except Exception as error:  # every kind of storage has errors of its own
        raise UsageError(f"{url} cannot be opened: {_one_line(error)}") from error
    if not found:
        raise UsageError(f"{url} does not exist or holds no file")
    top = str(root).rstrip("/")
    objects = [
        _Object(
            str(address),
            harmless_name(str(address)[len(top) :] or str(address).rpartition("/")[2]),
            int(info.get("size") or 0),
            _time_of(info),
        )
        for address, info in sorted(found.items())
        if info.get("type") == "file"
    ]
    return system, objects


def _heads(system: Any, objects: list[_Object]) -> dict[str, bytes]:
    if not objects:
        return {}
    addresses = [thing.address for thing in objects]
    answers = system.cat_ranges(addresses, 0, SNIFF_BYTES, on_error="return")
    return {a: head for a, head in zip(addresses, answers, strict=True) if isinstance(head, bytes)}


def _check_room(url: str, needed: int, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise UsageError(
            f"{url} holds {needed:,} bytes of logs, more than the {free:,} bytes free in the temporary folder "
            f"{folder.parent} (TMPDIR names another)"
        )


def _get(system: Any, wanted: list[tuple[_Object, Path]]) -> None:
    try:
        system.get([thing.address for thing, _ in wanted], [str(path) for _, path in wanted])
    except Exception:  # one of them: each by itself, so that the others come
        for thing, path in wanted:
            try:
                system.get_file(thing.address, str(path))
            except Exception:
                path.unlink(missing_ok=True)  # named as not fetched by the caller


def _time_of(info: dict[str, Any]) -> int:
    for key in _TIMES:
        value = info.get(key)
        if isinstance(value, str):
            try:
                value = datetime.fromisoformat(value)
            except ValueError:
                continue
        if isinstance(value, datetime):
            value = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        if isinstance(value, int | float):
            return int(value * 1e9)
    return 0


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:300] or type(error).__name__
