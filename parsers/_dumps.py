"""Readers for the two regular forms in which programs dump their configuration.

Dotted columns: ``  hidden_size ............ 2048``, name and dots filling a fixed width. Megatron-LM 1.0 and GPT-NeoX
use 32 columns, Megatron-LM from 2.0 uses 48, DeepSpeed 29. Indented YAML: NeMo (Hydra), Composer. Both arrive line by
line in a stream that other ranks may write into, so a line that fits is taken and one that does not is stepped over.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from correlator.events import COLUMNS

#: Columns that name plus dots fill, by program (see the module's docstring).
WIDTHS = (48, 32, 29)

#: Lines without a setting after which a dump without end mark is given up.
PATIENCE = 40

_DOTTED = re.compile(r"(?:^|[^\w.])(?P<name>[A-Za-z_]\w*) (?P<dots>\.{3,})(?: (?P<value>.*))?$")
_DOTS_ONLY = re.compile(r"^(?P<dots>\.+) (?P<value>.*)$")
_LONG = re.compile(r"^ {0,4}(?P<name>[a-z]\w{26,}) (?P<dots>\.{0,2}) (?P<value>.*)$")
_NEOX_ORIGIN = re.compile(r"^(.*[^.])\.*(?:updated|default)$")
_YAML = re.compile(r"^(?P<indent> *)(?P<item>- )?(?P<key>[\w.@/-]+):(?: (?P<value>.*))?$")
#: A number or constant to which a foreign line was glued, because its writer printed before this one's line end.
_GLUED = re.compile(r"^(-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?|True|False|None)(?:\s?[>\[(]|[A-Z]{2})")


def _setting(line: str, width: int | None) -> tuple[str, str, int] | None:
    """Name, value and column width of a dotted setting, or None."""
    for pattern in (_DOTTED, _LONG):
        found = pattern.search(line)
        if found and found["value"] is not None:
            name, columns = found["name"], len(found["name"]) + len(found["dots"])
            if columns in ((width,) if width else WIDTHS) or columns > max(WIDTHS):
                return name, found["value"], columns
    return None


def read_dotted(lines: Sequence[str], end: str) -> tuple[dict[str, str], int]:
    """Settings of a dotted dump that starts at index 0, and the index of its last line.

    ``end`` is a text that closes the dump (empty: nothing does). A line torn inside its dots is put together again,
    and a value that a foreign line was glued to is cut back to the number in front.
    """
    found: dict[str, str] = {}
    width: int | None = None
    torn = ""
    last = 0
    for index, line in enumerate(lines[1:], 1):
        if end and end in line:
            return found, index
        if index - last > PATIENCE:
            break
        text = line.rstrip()
        rest = _DOTS_ONLY.match(text) if torn else None
        setting = _setting(f"{torn}{rest['dots']} {rest['value']}", width) if rest else _setting(text, width)
        if setting is None:
            half = _DOTTED.search(text)
            if half and half["value"] is None and half["dots"]:
                torn = f"{half['name']} {half['dots']}"
            continue
        name, value, columns = setting
        torn = ""
        width = width or (columns if columns in WIDTHS else None)
        if width == 32 and (origin := _NEOX_ORIGIN.match(value)):
            value = origin[1]
        glued = _GLUED.match(value)
        found.setdefault(name, glued[1] if glued else value)
        last = index
    return found, last


def read_yaml(lines: Sequence[str], stop: Iterable[str] = ()) -> tuple[dict[str, str], int]:
    """Scalars of an indented YAML dump below index 0, by their last key, and the index of its last line.

    A key that occurs again deeper in the tree gets its dotted path. Lists and block scalars are left out.
    """
    found: dict[str, str] = {}
    path: list[tuple[int, str]] = []
    last = 0
    for index, line in enumerate(lines[1:], 1):
        if found and any(mark in line for mark in stop):
            return found, index
        if index - last > (PATIENCE if not found else 3):
            break
        entry = _YAML.match(line.rstrip())
        if entry is None:
            last = index if found and line.lstrip().startswith("- ") else last
            continue
        last = index
        depth = len(entry["indent"]) + len(entry["item"] or "")
        path = [(d, k) for d, k in path if d < depth]
        value = (entry["value"] or "").strip()
        if not value:
            path.append((depth, entry["key"]))
            continue
        value = value.strip("'\"")
        name = entry["key"] if entry["key"] not in found else ".".join([*(k for _, k in path), entry["key"]])
        found.setdefault(name, value)
    return found, last


_RANKS = ("rank", "local_rank")


def as_fields(settings: dict[str, str]) -> dict[str, object]:
    """Settings as fields of an event; those named as a column get the prefix ``arg_``, ranks excepted."""
    return {
        (name if name not in COLUMNS or (name in _RANKS and value.isdecimal()) else f"arg_{name}"): value
        for name, value in settings.items()
    }
