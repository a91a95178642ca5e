"""A folder of results: there whole or not at all, and never in place of anything but an earlier one of its kind."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Iterable
from pathlib import Path

from correlator.errors import UsageError


def write_site(place: str, files: Iterable[tuple[str, bytes]], manifest: str) -> int:
    """Writes ``files`` (path below the folder, content) under a temporary name, then renames; gives their number.

    ``place`` is new, an empty folder, or an earlier site: a folder in which nothing lies but what its own file
    ``manifest`` lists. Raises UsageError for anything else and where it cannot be written; what was there stays.
    """
    try:
        target = Path(place).resolve()
        _check(target, place, manifest)
        temporary = target.with_name(f".{target.name[:64]}-{secrets.token_hex(8)}.tmp")
        former = temporary.with_suffix(".old")
        count = 0
        try:
            temporary.mkdir()
            for name, content in files:
                path = temporary / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
                count += 1
            if target.exists():
                target.rename(former)
            try:
                temporary.rename(target)
            except OSError:
                if former.exists():
                    former.rename(target)
                raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
        shutil.rmtree(former, ignore_errors=True)
    except (OSError, RuntimeError, ValueError) as fault:  # a loop of links, a NUL in the name
        raise UsageError(f"cannot write {place}: {getattr(fault, 'strerror', None) or fault}") from None
    return count


def _check(target: Path, place: str, manifest: str) -> None:
    if not place:
        raise UsageError("--site names no folder")
    if not target.exists():
        if not target.parent.is_dir():
            raise UsageError(f"the folder that --site {place} would lie in does not exist")
        return
    if not target.is_dir():
        raise UsageError(f"--site {place} is a file; name a folder")
    if target == Path.cwd() or target in Path.cwd().parents:
        raise UsageError(f"--site {place} is the folder this runs in; name another")
    found = {
        path.relative_to(target).as_posix() for path in target.rglob("*") if path.is_symlink() or not path.is_dir()
    }
    if found - _listed(target / manifest):
        raise UsageError(f"--site {place} holds files that are no earlier site's; name an empty or a new folder")


def _listed(manifest: Path) -> set[str]:
    try:
        stated = json.loads(manifest.read_bytes())
        return {str(name) for name in stated["files"]}
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return set()
