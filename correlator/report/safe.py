r"""Text from logs made harmless for a terminal, a picture or a table.

A log line may hold anything: cursor movements, OSC sequences that set a title or the clipboard, bidirectional overrides
that show a host name backwards, invisible characters. Nothing of it is dropped, for it can be the evidence: every such
character is shown as a visible escape (``\x1b``, ``\u202e``). Rich's own markup is never interpreted, because text
reaches it as ``rich.text.Text`` only.
"""

from __future__ import annotations

import re
import unicodedata

_NOT_ASCII = re.compile(r"[^\x00-\x7e]")
_BREAKS = re.compile(r"[ \t\r\n]+")

#: More combining marks than this on one character serve no script; they climb over the neighbouring lines.
_MARKS_LIMIT = 4


def visible(text: str) -> str:
    r"""One line of ``text`` in which every character that could steer a terminal is a visible escape.

    A line break becomes ``\n``, a tab four blanks, any other kind of blank a blank. A byte that was no UTF-8 (read with
    ``surrogateescape``) is shown as that byte.

    >>> visible("loss\x1b[2J[red]nan[/red]")
    'loss\\x1b[2J[red]nan[/red]'
    """
    if text.isascii() and text.isprintable():
        return text
    shown: list[str] = []
    marks = 0
    for character in text:
        marks = marks + 1 if unicodedata.category(character) in ("Mn", "Me") else 0
        shown.append(_escape(character) if marks > _MARKS_LIMIT else _visible_character(character))
    return "".join(shown)


def visible_lines(text: str) -> list[str]:
    r"""The lines of ``text``, each made visible. LF and CR LF end a line, nothing else does.

    >>> visible_lines("one\r\ntwo\x85three")
    ['one', 'two\\x85three']
    """
    return [visible(line.removesuffix("\r")) for line in text.split("\n")]


def visible_prose(text: str) -> str:
    """``text`` as one paragraph: line breaks and runs of blanks become one blank, the rest is made visible."""
    return visible(_BREAKS.sub(" ", text).strip())


def visible_json(data: bytes) -> bytes:
    """JSON in which what could steer a terminal is a ``\\u`` escape; it means the same to any reader of JSON.

    Such characters can only stand inside strings there, so no parsing is needed.
    """
    text = data.decode()
    if text.isascii() and "\x7f" not in text:
        return data
    return _NOT_ASCII.sub(lambda found: _json_escape(found[0]), text).encode()


def _json_escape(character: str) -> str:
    if character.isprintable():
        return character
    units = character.encode("utf-16-be")
    return "".join(f"\\u{units[at]:02x}{units[at + 1]:02x}" for at in range(0, len(units), 2))


def _visible_character(character: str) -> str:
    if character == "\t":
        return "    "
    if character == "\n":
        return "\\n"
    if character == "\r":
        return "\\r"
    # Not printable, as Python has it: control, format (bidi, zero width, tags), surrogate, private use, unassigned,
    # and every separator but the ASCII blank.
    if character.isprintable():
        return character
    return " " if unicodedata.category(character) == "Zs" else _escape(character)


def _escape(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # a raw byte, as surrogateescape keeps it
        code -= 0xDC00
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
