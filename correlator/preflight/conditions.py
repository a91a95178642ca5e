"""Arithmetic conditions of the rules: a small part of Python's expressions, read as a tree and never run as Python.

Three-valued: what needs an unknown value is unknown, unless it is settled without it. What needs a value that is not
stated raises :class:`NotStated`: the rule does not apply.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable
from functools import cache
from typing import Any

from correlator.preflight.model import Unknown, together

Lookup = Callable[[str], Any]


class NotStated(Exception):
    """An operation needs a value that nobody states."""


_BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
}  # fmt: skip
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
#: Comparisons that make sense with a value that is not stated.
_EQUALITY = (ast.Eq, ast.NotEq)


def divisors(number: int, *others: Any) -> str:
    """The divisors of ``number`` up to 64, for a sentence; of ``others``, those that are known are divided as well."""
    known = [other for other in others if isinstance(other, int) and other > 0]
    return ", ".join(str(n) for n in range(1, min(number, 64) + 1) if not any(one % n for one in (number, *known)))


def multiples_near(number: int, of: int) -> str:
    """The multiples of ``of`` next to ``number``."""
    below, above = number // of * of, -(-number // of) * of
    return f"{below} or {above}" if below else str(above)


def largest_divisor(number: int, at_most: int) -> int:
    """The largest divisor of ``number`` that is not above ``at_most``."""
    return next(n for n in range(max(1, min(number, at_most)), 0, -1) if number % n == 0)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "divisors": divisors, "multiples_near": multiples_near, "largest_divisor": largest_divisor,
    "max": max, "min": min, "item": operator.getitem, "ceil": math.ceil, "len": len, "str": str,
    "starts": lambda text, start: str(text).startswith(start),
    "lower": lambda text: str(text).lower(),
}  # fmt: skip


@cache
def parse(text: str) -> ast.expr:
    """The tree of a condition. Raises SyntaxError for what is no expression."""
    return ast.parse(text.strip(), mode="eval").body


def names_in(text: str) -> list[str]:
    """Every name that a condition uses, in the order of writing; functions left out."""
    found: dict[str, None] = {}
    _collect(parse(text), found)
    return list(found)


def _collect(node: ast.AST, found: dict[str, None]) -> None:
    if isinstance(node, (ast.Name, ast.Attribute)):
        found[ast.unparse(node)] = None
        return
    skipped = node.func if isinstance(node, ast.Call) else None
    for child in ast.iter_child_nodes(node):
        if child is not skipped:
            _collect(child, found)


def evaluate(text: str, lookup: Lookup) -> Any:
    """The value of a condition; an :class:`Unknown` where it cannot be known.

    ``lookup`` gives the value of a name (dotted names as one), None for what is not stated. Raises NotStated.
    """
    try:
        return _value(parse(text), lookup)
    except (TypeError, ZeroDivisionError, OverflowError, StopIteration, IndexError) as fault:
        # Text where a number should be, a size of zero: other rules speak about those.
        raise NotStated(str(fault)) from None


def _value(node: ast.expr, lookup: Lookup) -> Any:
    match node:
        case ast.Constant():
            return node.value
        case ast.Name() | ast.Attribute():
            return lookup(ast.unparse(node))
        case ast.Tuple() | ast.List():
            return tuple(_value(item, lookup) for item in node.elts)
        case ast.BoolOp():
            return _kleene(node, lookup)
        case ast.UnaryOp(op=ast.Not()):
            inner = _value(node.operand, lookup)
            return inner if isinstance(inner, Unknown) else not inner
        case ast.UnaryOp(op=ast.USub()):
            return _apply(_numbers_only(operator.neg), _value(node.operand, lookup))
        case ast.BinOp() if type(node.op) in _BINARY:
            return _apply(_numbers_only(_BINARY[type(node.op)]), _value(node.left, lookup), _value(node.right, lookup))
        case ast.Compare() if all(type(op) in _COMPARE for op in node.ops):
            return _chain(node, lookup)
        case ast.IfExp():
            test = _value(node.test, lookup)
            return test if isinstance(test, Unknown) else _value(node.body if test else node.orelse, lookup)
        case ast.Call(func=ast.Name(id=name)) if name in FUNCTIONS and not node.keywords:
            values = [_value(item, lookup) for item in node.args]
            if name == "divisors":  # a size that is not known narrows nothing
                return _apply(lambda number: divisors(number, *values[1:]), values[0])
            return _apply(FUNCTIONS[name], *values)
    raise SyntaxError(f"not allowed in a condition: {ast.unparse(node)}")


def _apply(function: Callable[..., Any], *values: Any) -> Any:
    if any(value is None for value in values):
        raise NotStated
    return together(values) or function(*values)


def _numbers_only(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, for which text is no value: ``"auto"`` twice is nothing."""

    def checked(*values: Any) -> Any:
        if not all(isinstance(value, (int, float)) for value in values):
            raise NotStated
        return function(*values)

    return checked


def _chain(node: ast.Compare, lookup: Lookup) -> Any:
    left: Any = _value(node.left, lookup)
    before = node.left
    for op, item in zip(node.ops, node.comparators, strict=True):
        right: Any = _value(item, lookup)
        literal = isinstance(before, ast.Constant) or isinstance(item, ast.Constant)
        if isinstance(op, _EQUALITY) and literal and (left is None or right is None):
            # `x == None` asks whether x is stated; what is not stated is no `'c10d'` either.
            holds: Any = next((v for v in (left, right) if isinstance(v, Unknown)), None)
            holds = holds or _COMPARE[type(op)](left, right)
        elif isinstance(op, _EQUALITY) and not literal and isinstance(left, str) is not isinstance(right, str):
            raise NotStated  # a number and a word such as "auto", which stands for another number
        else:
            holds = _apply(_COMPARE[type(op)], left, right)
        if isinstance(holds, Unknown) or not holds:
            return holds
        left, before = right, item
    return True


def _kleene(node: ast.BoolOp, lookup: Lookup) -> Any:
    """``and``/``or`` over known and unknown: one value may settle it whatever the unknown ones are."""
    settles = isinstance(node.op, ast.Or)
    unknown: list[Unknown] = []
    missing = False
    for item in node.values:
        try:
            value = _value(item, lookup)
        except NotStated:
            missing = True
            continue
        if isinstance(value, Unknown):
            unknown.append(value)
        elif bool(value) is settles:
            return settles
    if missing:
        raise NotStated
    return together(unknown) or not settles
