"""The diagnosis as Markdown, for an issue or a chat: CommonMark with GitHub's tables, readable as it is written.

Log text is hostile here as well. Raw lines stand in code blocks whose fence is longer than any run of backquotes in
them. In prose only those marks are escaped that would mean something where they stand; a word that a code host would
turn into a link or a call (an address, ``@name``, ``#12``) becomes code, since it does so whatever is escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from correlator.diagnosis import Document
from correlator.phrases import agree
from correlator.report import pages, sayings
from correlator.report.proof import Neighbourhood, quoted_proofs
from correlator.report.safe import visible, visible_prose
from correlator.report.warnings import warning_texts

#: Words as far as they go without a mark that is escaped, or that ends a sentence.
_WORD = re.compile(r"[^\s|`<>\\\[\]*~$(),;\"']+")
_LINKED = re.compile(r"@|#\d|\bgh-\d|://|\bwww\.|:[a-z0-9_+-]+:", re.IGNORECASE)
#: What means something wherever it stands: code, tags, emphasis, links, cells; an entity; an escape.
_MARKS = re.compile(r"[`<*\[\]|]|&(?=[#a-zA-Z])|\\(?=[!-/:-@\[-`{-~]|$)|(?<![^\W_])_|_(?![^\W_])")
#: What does so only in a pair.
_PAIRED = ("~", "$")
#: What begins a block at the start of a line.
_BLOCK = re.compile(r"^(\d+)([.)])|^([-+=>#])")
_BACKQUOTES = re.compile(r"`+")


def escaped(text: str) -> str:
    r"""Text of one line that Markdown shows as it is, and of which nobody makes a link.

    >>> escaped("rank_3 (gpu-a[1-2]): a <b> *c*, ask @team, see http://x/y")
    'rank_3 (gpu-a\\[1-2\\]): a \\<b> \\*c\\*, ask `@team`, see `http://x/y`'
    """
    text = visible_prose(text)
    pairs = "".join(mark for mark in _PAIRED if text.count(mark) > 1)
    made, end = [], 0
    for word in _WORD.finditer(text):
        if _LINKED.search(word[0]):
            made += [_escaped_marks(text[end : word.start()], pairs), f"`{word[0]}`"]
            end = word.end()
    made.append(_escaped_marks(text[end:], pairs))
    return _BLOCK.sub(lambda m: f"{m[1]}\\{m[2]}" if m[1] else f"\\{m[3]}", "".join(made))


def _escaped_marks(text: str, pairs: str) -> str:
    text = _MARKS.sub(r"\\\g<0>", text)
    for mark in pairs:
        text = text.replace(mark, f"\\{mark}")
    return text


def code_block(lines: Iterable[str], language: str = "text") -> str:
    """Lines as a code block that nothing in them can close."""
    shown = [visible(line) for line in lines]
    longest = max((len(run) for line in shown for run in _BACKQUOTES.findall(line)), default=0)
    fence = "`" * max(3, longest + 1)
    return "\n".join([fence + language, *shown, fence])


def render_markdown(document: Document, neighbourhood: Neighbourhood | None = None) -> str:
    """The whole report."""
    return "\n\n".join(part for part in _parts(document, neighbourhood) if part) + "\n"


def _parts(document: Document, neighbourhood: Neighbourhood | None) -> Iterator[str]:
    failed = document.verdict.class_ != "none"
    yield f"# {escaped(sayings.headline(document))}"
    if failed:
        yield f"**{escaped(sayings.place_line(document))}**"
        yield escaped(sayings.resume_short(document))
    yield escaped(document.verdict.summary)
    yield escaped(sayings.job_line(document.job))
    if document.verdict.class_ == "unknown":
        yield from _section("What would decide it", _bullets(pages.would_decide(document)))
    yield from _section("Who failed first" if failed else "What shows it", _proof(document, neighbourhood, failed))
    rows = list(pages.cascade_rows(document))
    if failed and rows:
        table = ["| after | role | what | line |", "| ---: | --- | --- | --- |"]
        table += [f"| {' | '.join(escaped(cell) for cell in row)} |" for row in rows]
        yield from _section("How it spread", ["\n".join(table), *map(escaped, pages.cascade_notes(document))])
    if document.verdict.class_ != "unknown":
        yield from _section("What else it could be", _bullets(pages.rivals(document)))
    ruled_out = [agree(f"{entry.what}: {entry.why}") for entry in document.ruled_out]
    yield from _section("Ruled out", _bullets(ruled_out))
    yield from _section("Where to resume", [escaped(sayings.resume_head(document.resume)), *_resume(document)])
    yield from _section("What to do now", _steps(document))
    yield from _section("Warnings", _bullets(warning_texts(document)))
    yield escaped(pages.footer(document))


def _section(title: str, body: Iterable[str]) -> Iterator[str]:
    parts = [part for part in body if part]
    if parts:
        yield f"## {title}"
        yield from parts


def _bullets(items: Iterable[str]) -> list[str]:
    return ["\n".join(f"- {escaped(item)}" for item in items)]


def _proof(document: Document, neighbourhood: Neighbourhood | None, failed: bool) -> Iterator[str]:
    if failed:
        facts = [sayings.who(document), *sayings.gpus(document), sayings.when(document)]
        yield _bullets(fact for fact in facts if fact)[0]
    for proof in quoted_proofs(document, neighbourhood):
        why = f" {escaped(proof.why)}" if proof.why else ""
        yield f"**{escaped(proof.place)}**{why}"
        yield code_block(f"{'>' if line.is_key else ' '} {line.number} {line.text}" for line in proof.lines)


def _resume(document: Document) -> Iterator[str]:
    resume = document.resume
    yield escaped(resume.path or "")
    yield _bullets([*sayings.resume_reasons(resume), *sayings.other_candidates(resume)])[0]


def _steps(document: Document) -> Iterator[str]:
    for number, step in enumerate(pages.steps(document), 1):
        tag = f" *({step.tag})*" if step.tag else ""
        yield f"{number}\\. **{escaped(step.title)}**{tag} {escaped(step.why)}".rstrip()
        if step.command:
            yield code_block(step.command.split("\n"), "sh")
    if document.verify.what:
        yield f"Fixed when: {escaped(document.verify.what)}"
        if document.verify.command:
            yield code_block(document.verify.command.split("\n"), "sh")
