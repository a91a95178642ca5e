"""The whole encyclopedia as a static web site that works from a folder: no server, nothing loaded from elsewhere.

Pages link by relative addresses; the search index is a script, because a page opened as a file may not fetch one.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from importlib.resources import files
from typing import Any

import msgspec

from correlator.lookup import Explained
from correlator.report.engine import environment
from correlator.report.entry import EMITTERS
from correlator.report.entry_html import entry_values
from correlator.signatures.model import CLASSES, Signature

#: Which files are the site's own; without it a folder is no earlier site.
MANIFEST = "site.json"
_WORD = re.compile(r"[a-z0-9]+")


def site_files(entries: Iterable[Signature], home: str | None = None) -> Iterator[tuple[str, bytes]]:
    """(path below the site's folder, content) of every file; the manifest, which lists the others, comes last.

    ``home``: address that every page links to as the way out of the encyclopedia.
    """
    names = []
    for name, content in _files(sorted(entries, key=lambda entry: entry.id), home):
        names.append(name)
        yield name, content
    manifest = {"what": "correlator encyclopedia", "files": sorted([*names, MANIFEST])}
    yield MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=1)


def _files(entries: list[Signature], home: str | None) -> Iterator[tuple[str, bytes]]:
    yield "style.css", (_asset("entry.css") + _asset("site.css")).encode()
    yield "search.js", _asset("search.js").encode()
    yield "entries.js", _index(entries)
    by_class, by_emitter = _grouped(entries, lambda e: e.class_), _grouped(entries, lambda e: e.emitter)
    classes = [(name, name, by_class[name]) for name in CLASSES if name in by_class]
    emitters = sorted(((name, EMITTERS[name], found) for name, found in by_emitter.items()), key=lambda g: g[1].lower())
    counts = Counter((e.class_, e.emitter) for e in entries)
    yield (
        "index.html",
        _page("site_index", "", home, entries=entries, classes=classes, emitters=emitters, counts=counts),
    )
    yield "by-class.html", _page("site_groups", "", home, title="By class", groups=classes)
    yield "by-emitter.html", _page("site_groups", "", home, title="By who prints it", groups=emitters)
    for entry in entries:
        values = entry_values(Explained(entry, xids=entry.xids), lambda id_: f"{id_}.html")
        yield f"entries/{entry.id}.html", _page("site_entry", "../", home, emitter=EMITTERS[entry.emitter], **values)


def _page(template: str, root: str, home: str | None, **values: Any) -> bytes:
    text = environment().get_template(f"{template}.html.j2").render(root=root, home=home, **values)
    return text.encode("utf-8", "backslashreplace")


def _asset(name: str) -> str:
    return (files("correlator.report") / "templates" / name).read_text(encoding="utf-8")


def _grouped(entries: Iterable[Signature], key: Callable[[Signature], str]) -> dict[str, list[Signature]]:
    groups: dict[str, list[Signature]] = defaultdict(list)
    for entry in entries:
        groups[key(entry)].append(entry)
    return groups


def _index(entries: Iterable[Signature]) -> bytes:
    """A script with one row an entry: id, title, class, emitter, role, and the words it is found by."""
    rows = [[e.id, e.title, e.class_, e.emitter, e.role, _words(e)] for e in entries]
    text = msgspec.json.encode(rows).decode().replace("<", "\\u003c")
    # JSON is no script where a string holds one of these two line separators.
    text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return f'"use strict";\nconst ENTRIES = {text};\n'.encode()


def _words(entry: Signature) -> str:
    lines = (sample.line for sample in entry.samples if sample.hit)
    texts = [
        *(entry.title, entry.id, *(other.text for other in entry.literals), *entry.match.contains),
        *(*entry.match.all_of, *lines, entry.mechanism, *(question.ask for question in entry.questions)),
    ]
    return " | ".join(dict.fromkeys(" ".join(_WORD.findall(text.lower())) for text in texts))
