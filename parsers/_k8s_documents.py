"""Kubernetes events as ``kubectl get events -o json|yaml`` prints them: keys in alphabetical order, an item a block."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from correlator.events import Found, Severity
from correlator.untrusted import read_json

_PAIR = re.compile(r'^(?P<indent> *(?:- )?)"?(?P<key>[a-zA-Z]+)"?: ?(?P<value>.*?),?$')
_INVOLVED = re.compile(r'^ *(?:- )?"?involvedObject"?:')
_QUOTES = "\"'"


def read_event(lines: Sequence[str], crucial: re.Pattern[str], telling: re.Pattern[str]) -> list[Found]:
    """The event whose object begins in the first line, or all of a document of one line.

    ``crucial``: reasons that tell why something ended; ``telling``: normal ones worth a row beside them.
    """
    if lines[0].startswith("{"):
        document = read_json(lines[0])
        items = document.get("items", [document]) if isinstance(document, dict) else []
        events = (_flat(item) for item in items if isinstance(item, dict)) if isinstance(items, list) else iter(())
        return [found for event in events for found in _found(event, 0, crucial, telling)]
    if not _INVOLVED.match(lines[0]):
        return []
    level = len(lines[0]) - len(lines[0].lstrip(" -"))
    event: dict[str, str] = {}
    section, key, last = "involvedObject", "", 0
    for index, line in enumerate(lines[1:], start=1):
        depth = len(line) - len(line.lstrip(" "))
        match = _PAIR.match(line)
        if depth < level or line.lstrip().startswith("- "):
            break
        if depth == level and match:
            section, key = match["key"], ""
            if match["value"] not in ("", "{"):
                key = section
                event.setdefault(key, match["value"])
        elif match and section in ("involvedObject", "source"):
            event.setdefault(f"{section}.{match['key']}", match["value"])
        elif key and depth > level:  # YAML folds a long text
            event[key] += " " + line.strip()
        last = index
        if section == "type":
            break
    return list(_found({name: text.strip().strip(_QUOTES) for name, text in event.items()}, last, crucial, telling))


def _flat(item: Mapping[str, object]) -> dict[str, str]:
    flat = {name: value for name, value in item.items() if isinstance(value, str)}
    for section in ("involvedObject", "source"):
        inner = item.get(section)
        if isinstance(inner, dict):
            flat |= {f"{section}.{name}": value for name, value in inner.items() if isinstance(value, str)}
    return flat


def _found(event: Mapping[str, str], last: int, crucial: re.Pattern[str], telling: re.Pattern[str]) -> Iterator[Found]:
    reason, kind, name = (
        event.get("reason", ""),
        event.get("involvedObject.kind", "").lower(),
        event.get("involvedObject.name"),
    )
    severity: Severity = (
        "error" if crucial.fullmatch(reason) else "warning" if event.get("type") == "Warning" else "info"
    )
    if not name or (severity == "info" and not telling.fullmatch(reason)):
        return
    message = event.get("message", "")
    fields: dict[str, object] = {"reason": reason, "object": f"{kind}/{name}", "message": message, "severity": severity}
    if (node := name if kind == "node" else event.get("source.host")) is not None:
        fields["node"] = node
    if kind == "pod":
        fields["pod"] = name
    if (at := _time_ns(event.get("lastTimestamp") or event.get("firstTimestamp") or "")) is not None:
        fields["timestamp"] = at
    yield Found(0, last, fields, body=f"{event.get('type', '')} {reason} {kind}/{name} {message}".strip())


def _time_ns(text: str) -> int | None:
    try:
        return int(datetime.fromisoformat(text).timestamp()) * 1_000_000_000
    except (ValueError, OverflowError):
        return None
