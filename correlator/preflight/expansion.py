"""Bash words expanded as far as they can be known: variables, arrays, defaults, arithmetic; ``$(…)`` is unknown."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from correlator.preflight.model import Unknown, Word, join
from correlator.preflight.scope import Held, Scope
from correlator.untrusted import read_number

if TYPE_CHECKING:
    from tree_sitter import Node

#: Characters of one expanded word; a script that doubles a variable again and again is stopped here.
_LONGEST_WORD, _MOST_PIECES = 1 << 16, 256
_MOST_WORDS = 4096
_ESCAPE = re.compile(r"\\(\n|.)", re.S)
_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul,
    "/": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) is (b < 0) else -1),  # towards zero, as the shell does
    "%": lambda a, b: abs(a) % abs(b) * (-1 if a < 0 else 1),
}  # fmt: skip


def assign(scope: Scope, node: Node, exported: bool) -> None:
    """Takes in ``NAME=value``, ``NAME+=value``, ``NAME=(…)``; elements of arrays are not followed."""
    target, value = node.child_by_field_name("name"), node.child_by_field_name("value")
    if target is None or not target.text:
        return
    name = _text(target)
    if target.type == "subscript":
        array = _text(target.named_children[0])
        scope.variables[array] = Word((Unknown(f"elements of {array} are set one by one"),))
        return
    more = any(child.type == "+=" for child in node.children)
    held: Held
    if value is None:
        held = Word(())
    elif value.type == "array":
        held = tuple(word for child in value.named_children for word in expand(child, scope))[:_MOST_WORDS]
    else:
        held = _bounded(join(_pieces(value, scope, quoted=True)))
    scope.variables[name] = _appended(scope.variables.get(name), held) if more else held
    if exported:
        scope.exported.add(name)


def _appended(old: Held | None, new: Held) -> Held:
    if old is None:
        return new
    if isinstance(old, tuple) or isinstance(new, tuple):
        parts = (old if isinstance(old, tuple) else (old,)) + (new if isinstance(new, tuple) else (new,))
        return parts[:_MOST_WORDS]
    return _bounded(join([*old.pieces, *new.pieces]))


def _text(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _bounded(word: Word) -> Word:
    size = sum(len(piece) for piece in word.pieces if isinstance(piece, str))
    too_long = size > _LONGEST_WORD or len(word.pieces) > _MOST_PIECES
    return Word((Unknown("a word too long to be followed"),)) if too_long else word


def expand(node: Node, scope: Scope) -> list[Word]:
    """The words that one word of a script becomes."""
    kind = node.type
    if kind == "string":
        inner = node.named_children
        if (
            len(inner) == 1
            and inner[0].type in ("simple_expansion", "expansion")
            and len(_text(node)) == 2 + len(_text(inner[0]))
        ):
            held, spread = _held(inner[0], scope)
            if isinstance(held, tuple) and spread:
                return list(held)
        return [_bounded(join(_pieces(node, scope, quoted=True)))]
    if kind in ("simple_expansion", "expansion"):
        held, _ = _held(node, scope)
        words = list(held) if isinstance(held, tuple) else [held]
        return [part for word in words for part in _split(word)][:_MOST_WORDS]
    if kind == "command_substitution":
        return [Word(tuple(_pieces(node, scope, quoted=False)), many=True)]
    return [_bounded(join(_pieces(node, scope, quoted=False)))]


def _split(word: Word) -> list[Word]:
    """An unquoted value at its blanks; one that is not known may become any number of words."""
    if word.text is not None:
        return [Word((part,)) for part in word.text.split()]
    parts: list[list[str | Unknown]] = [[]]
    for piece in word.pieces:
        if isinstance(piece, Unknown):
            parts[-1].append(piece)
            continue
        texts = re.split(r"\s+", piece)
        parts[-1].append(texts[0])
        parts += [[text] for text in texts[1:]]
    return [join(part, many=_may_split(part)) for part in parts if any(p != "" for p in part)]


def _may_split(pieces: Iterable[str | Unknown]) -> bool:
    return any(isinstance(piece, Unknown) and not piece.one for piece in pieces)


def _pieces(node: Node, scope: Scope, quoted: bool) -> list[str | Unknown]:
    kind = node.type
    text = _text(node)
    if kind == "raw_string":
        return [text[1:-1]]
    if kind == "ansi_c_string":
        return [text[2:-1]]
    if kind in ("string", "concatenation", "translated_string", "heredoc_body"):
        return _with_gaps(node, scope)
    if kind in ("simple_expansion", "expansion"):
        held, _ = _held(node, scope)
        words = held if isinstance(held, tuple) else (held,)
        return [piece for at, word in enumerate(words) for piece in ((" ",) if at else ()) + word.pieces]
    if kind == "arithmetic_expansion":
        return [_arithmetic(node, scope)]
    if kind in ("command_substitution", "process_substitution"):
        return [Unknown(f"{_short(text)} is not run")]
    if kind in ("string_content", "heredoc_content"):
        return [re.sub(r'\\([$`"\\])', r"\1", text.replace("\\\n", ""))]
    if kind == "brace_expression" and not quoted:
        return [Unknown(f"{_short(text)} is not expanded")]
    return [_ESCAPE.sub(lambda found: "" if found[1] == "\n" else found[1], text)]


def _with_gaps(node: Node, scope: Scope) -> list[str | Unknown]:
    """The parts of a string; blanks between them belong to no child in the tree."""
    data = node.text or b""
    literal = node.type != "concatenation"
    found: list[str | Unknown] = []
    at = node.start_byte
    for child in node.children:
        if literal and child.start_byte > at:
            found.append(data[at - node.start_byte : child.start_byte - node.start_byte].decode(errors="replace"))
        if child.type != '"':
            found += _pieces(child, scope, quoted=literal)
        at = child.end_byte
    if literal and node.end_byte > at:
        found.append(data[at - node.start_byte :].decode(errors="replace"))
    return found


def heredoc_text(node: Node, scope: Scope, data: bytes) -> Word:
    """The text of ``<<END``; without expansion where END is quoted."""
    start = next((c for c in node.named_children if c.type == "heredoc_start"), None)
    body = next((c for c in node.named_children if c.type == "heredoc_body"), None)
    if body is None:
        return Word(())
    if start is not None and _text(start)[:1] in ("'", '"', "\\"):
        return Word((data[body.start_byte : body.end_byte].decode(errors="replace"),))
    return join(_with_gaps(body, scope))


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 60 else f"{flat[:57]}..."


def _held(node: Node, scope: Scope) -> tuple[Held, bool]:
    """The value of ``$X``, ``${X}``, ``${X[@]}``, ``${X:-default}`` …, and whether it is every element of an array."""
    inner = [child for child in node.children if child.type not in ("$", "${", "}", '"')]
    if not inner:
        return Word((Unknown(f"{_short(_text(node))} is not followed"),)), False
    operators = [child.type for child in inner if not child.is_named]
    target = next((c for c in inner if c.type in ("variable_name", "special_variable_name", "subscript")), inner[0])
    index = None
    name = _text(target)
    if target.type == "subscript":
        name = _text(target.named_children[0])
        index = _text(target.named_children[1]) if len(target.named_children) > 1 else "@"
    held = scope.get(name)
    if operators[:1] in (["#"], ["!"]) and inner[0].type in ("#", "!"):
        if operators[0] == "#" and isinstance(held, tuple):
            return Word((str(len(held)),)), False
        return Word((Unknown(f"{_short(_text(node))} is not followed"),)), False
    if index not in (None, "@", "*"):
        number = read_number(index or "")
        if isinstance(held, tuple) and number is not None and number < len(held):
            held = held[number]
        elif isinstance(held, tuple) or not held.unknown:
            held = Word((Unknown(f"{_short(_text(node))} is not followed"),))
    rest = [child for child in inner if child is not target]
    if not rest:
        spread = index == "@" or name == "@"
        if isinstance(held, tuple) and index is None and name not in ("@", "*"):
            held = held[0] if held else Word(())
        return held, spread
    return _with_default(node, name, rest, held, scope), index == "@" or name == "@"


def _with_default(node: Node, name: str, rest: Sequence[Node], held: Held, scope: Scope) -> Held:
    """``:-`` and its kin; every other operator is not followed."""
    sign = rest[0].type
    known = name in scope.variables or name in ("@", "*", "#", *map(str, range(1, len(scope.arguments) + 1)))
    empty = known and isinstance(held, Word) and held.text == "" and sign.startswith(":")
    default = join(piece for child in rest[1:] for piece in _pieces(child, scope, quoted=True))
    if sign in (":-", "-", ":=", "="):
        value = held if known and not empty else default
        if sign in (":=", "=") and (not known or empty):
            scope.variables[name] = value
        return value
    if sign in (":+", "+"):
        return default if known and not empty else Word(())
    if sign in (":?", "?"):
        return held
    return Word((Unknown(f"{_short(_text(node))} is not followed"),))


def _arithmetic(node: Node, scope: Scope) -> str | Unknown:
    inner = node.named_children
    value = _number(inner[0], scope) if len(inner) == 1 else Unknown(f"{_short(_text(node))} is not computed")
    return value if isinstance(value, Unknown) else str(value)


def _number(node: Node, scope: Scope) -> int | Unknown:
    kind = node.type
    if (literal := read_number(_text(node))) is not None:
        return literal
    if kind in ("variable_name", "simple_expansion", "expansion", "word"):
        held = scope.get(_text(node)) if kind in ("variable_name", "word") else _held(node, scope)[0]
        word = held[0] if isinstance(held, tuple) and held else held
        if isinstance(word, Word):
            number = read_number((word.text or "").strip())
            return number if number is not None else (word.unknown or Unknown(f"{_short(_text(node))} is no number"))
    if kind == "parenthesized_expression" and len(node.named_children) == 1:
        return _number(node.named_children[0], scope)
    if kind == "binary_expression" and len(node.children) == 3 and node.children[1].type in _ARITHMETIC:
        left, right = _number(node.children[0], scope), _number(node.children[2], scope)
        if isinstance(left, Unknown):
            return left
        if isinstance(right, Unknown):
            return right
        if abs(left) < 1 << 62 and abs(right) < 1 << 62 and not (node.children[1].type in "/%" and right == 0):
            return _ARITHMETIC[node.children[1].type](left, right)
    return Unknown(f"{_short(_text(node))} is not computed")


def words_of(texts: Iterable[str]) -> list[Word]:
    """Words that are wholly known."""
    return [Word((text,)) for text in texts]
