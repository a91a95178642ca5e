"""Configuration files read as settings with their lines: YAML, JSON and TOML, told apart by their content.

A log that holds the list of arguments Megatron-LM prints at its start is read as that list.

Nothing in a file is run: YAML tags that build objects are refused, ``${…}`` of OmegaConf is resolved only where it
names another key of the same file.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from correlator.errors import UsageError
from correlator.preflight.facts import scalar
from correlator.preflight.model import Place, Scalar, Setting, Unknown
from correlator.untrusted import read_json

if TYPE_CHECKING:
    import yaml

#: Bytes of a configuration file, and values in it.
LONGEST, _MOST_VALUES = 4 << 20, 50_000
_DEEPEST = 40
_REFERENCE = re.compile(r"\$\{([\w.]+)\}")
_TOML_HEAD = re.compile(r"^\s*\[\[?\s*([\w.\-\"']+)\s*\]\]?")
_DUMP_HEAD = re.compile(r"-{8,} arguments -{8,}")
_DUMP_LINE = re.compile(r"(\w+) \.{3,} ([^\"\\\s]+(?: [^\"\\\s]+)*)")
_TOML_KEY = re.compile(r"^\s*([\w.\-\"']+)\s*=")


def read_bytes(path: Path) -> bytes:
    """The content of a file the user names. Raises UsageError where it cannot be read or is too large."""
    try:
        with path.open("rb") as file:
            data = file.read(LONGEST + 1)
    except (OSError, ValueError) as fault:
        raise UsageError(f"cannot read {path}: {getattr(fault, 'strerror', None) or fault}") from None
    if len(data) > LONGEST:
        raise UsageError(f"{path} has more than {LONGEST >> 20} MiB; that is no configuration")
    return data


def read_config(text: str, name: str) -> list[dict[str, Setting]]:
    """The documents of a file, each as dotted keys: ``model.optim.lr``, ``spec.containers.0.image``.

    Raises UsageError where the text is none of these.
    """
    if name.endswith(".toml"):
        return [_toml(text, name)]
    if _DUMP_HEAD.search(text):
        return [_dump(text, name)]
    if name.endswith(".json") or text.lstrip()[:1] == "{":
        value = read_json(text)
        if isinstance(value, dict):
            lines = {key: s.place for document in _yaml(text.replace("\t", " "), name) for key, s in document.items()}
            return [{key: Setting(one, lines.get(key)) for key, one in _flat(value, "")}]
        if name.endswith(".json"):
            raise UsageError(f"{name} is no JSON object")
    return [_resolved(document) for document in _yaml(text, name)]


def _flat(value: Any, prefix: str, depth: int = 0) -> Iterator[tuple[str, Scalar]]:
    if depth > _DEEPEST:
        return
    if isinstance(value, dict):
        for key, one in value.items():
            yield from _flat(one, f"{prefix}.{key}" if prefix else str(key), depth + 1)
    elif isinstance(value, list):
        for number, one in enumerate(value):
            yield from _flat(one, f"{prefix}.{number}", depth + 1)
    elif isinstance(value, (bool, int, float, str)):
        yield prefix, value


def _toml(text: str, name: str) -> dict[str, Setting]:
    try:
        value = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as fault:
        raise UsageError(f"{name} is no TOML: {fault}") from None
    lines: dict[str, Place] = {}
    section = ""
    for number, line in enumerate(text.split("\n"), 1):
        if head := _TOML_HEAD.match(line):
            section = head[1].replace('"', "")
        elif key := _TOML_KEY.match(line):
            full = f"{section}.{key[1]}" if section else key[1]
            lines.setdefault(full.replace('"', ""), Place(name, number, line.strip()))
    return {key: Setting(one, lines.get(key, Place(name, 0))) for key, one in _flat(value, "")}


def _dump(text: str, name: str) -> dict[str, Setting]:
    """The first list of arguments in a log of Megatron-LM (print_args: ``name ...... value``)."""
    found: dict[str, Setting] = {}
    inside = False
    for number, line in enumerate(text.split("\n"), 1):
        if _DUMP_HEAD.search(line):
            inside = True
        elif "end of arguments" in line and inside:
            break
        elif inside and (match := _DUMP_LINE.search(line)) and match[2].strip() != "None":
            found.setdefault(match[1], Setting(scalar(match[2].strip()), Place(name, number, line.strip())))
    return found


def _yaml(text: str, name: str) -> list[dict[str, Setting]]:
    import yaml

    rows = text.split("\n")
    documents = []
    try:
        for root in yaml.compose_all(text, Loader=yaml.SafeLoader):
            found: dict[str, Setting] = {}
            _collect(root, "", found, rows, name, 0)
            documents.append(found)
    except (yaml.YAMLError, RecursionError, ValueError) as fault:
        why = str(getattr(fault, "problem", None) or fault or "nested too deep").partition("\n")[0]
        mark = getattr(fault, "problem_mark", None)
        where = f" in line {mark.line + 1}" if mark else ""
        raise UsageError(f"{name} is no YAML: {why}{where}") from None
    return documents


def _collect(
    node: yaml.Node | None, key: str, found: dict[str, Setting], rows: list[str], name: str, depth: int
) -> None:
    import yaml

    if node is None:
        return
    if depth > _DEEPEST or len(found) > _MOST_VALUES:  # aliases can multiply a short text without end
        raise ValueError("nested too deep, or more values than a configuration has")
    if isinstance(node, yaml.MappingNode):
        for field, value in node.value:
            part = str(field.value) if isinstance(field, yaml.ScalarNode) else "?"
            _collect(value, f"{key}.{part}" if key else part, found, rows, name, depth + 1)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            _collect(value, f"{key}.{number}", found, rows, name, depth + 1)
    elif isinstance(node, yaml.ScalarNode) and not node.tag.endswith(":null"):
        row = node.start_mark.line
        place = Place(name, row + 1, rows[row].strip() if row < len(rows) else "")
        quoted = node.style in ("'", '"')
        value = node.value if quoted or (node.tag.endswith(":str") and node.style in ("|", ">")) else scalar(node.value)
        yes_no = {"yes": True, "on": True, "no": False, "off": False}
        if node.tag.endswith(":bool"):
            value = yes_no.get(str(node.value).lower(), scalar(node.value))
        found[key] = Setting(value, place)


def _resolved(document: dict[str, Setting]) -> dict[str, Setting]:
    """``${model.seq_length}`` as the value of that key; what is no key of the file is unknown."""
    resolved = dict(document)
    for key, setting in document.items():
        seen = 0
        while isinstance(setting.value, str) and (found := _REFERENCE.fullmatch(setting.value.strip())) and seen < 10:
            seen += 1
            target = document.get(found[1])
            unknown = Unknown(f"{setting.value} is no key of {setting.place.file if setting.place else 'the file'}")
            setting = Setting(target.value if target else unknown, setting.place)
        if isinstance(setting.value, str) and setting.value.strip().startswith("${"):
            setting = Setting(Unknown(f"{setting.value.strip()} is settled when it runs"), setting.place)
        resolved[key] = setting
    return resolved
