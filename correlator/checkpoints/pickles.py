"""Reads the data in a pickle without unpickling it.

A small interpreter of the pickle opcodes that plain containers need. It knows no Python object but None, bool, int,
float, str, bytes, tuple, list and dict: a class or function named in the pickle stays a name (:class:`Global`), a
call of it becomes an inert record (:class:`Call`), and nothing is imported or run. Names outside the list in
``pickle_names`` are refused nevertheless: a checkpoint that names ``os.system`` is no checkpoint. Work and memory are
linear in the input: the memo is a dict, nothing is copied, keys are scalars or flat tuples, integers are short.

Opcodes: CPython ``Lib/pickletools.py``; ``torch.save`` writes protocol 2, ``.metadata`` protocol 4.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from correlator.checkpoints.disk import shown
from correlator.checkpoints.pickle_names import ALLOWED, ALLOWED_NAMES, EXECUTING

FRESH_DICTS = frozenset({"collections.OrderedDict", "collections.defaultdict", "builtins.dict", "__builtin__.dict"})
SEQUENCES = frozenset(
    {f"{module}.{name}" for module in ("builtins", "__builtin__") for name in ("set", "frozenset", "list", "tuple")}
    | {"torch.Size"}
)


class Refused(ValueError):
    """The pickle holds something a checkpoint does not need, or is damaged; the text says what."""


class Foreign(Refused):
    """The pickle names a class that is not known: one of the program's own."""


class Hostile(Refused):
    """The pickle names a function that acts when it is loaded; the text is that name."""

    @property
    def told(self) -> str:
        """The finding, as a clause."""
        return f"loading it with the ordinary unpickler would call {shown(str(self), 200)}: do not load it"


class Ended(Refused):
    """The bytes end before the pickle does."""


@dataclass(frozen=True, slots=True)
class Global:
    """The name of a class or function: ``torch.float32``."""

    name: str


@dataclass(slots=True, eq=False)
class Call:
    """An object that loading would have made: the callable's name, its arguments, its state, its items."""

    name: str
    args: tuple[Any, ...]
    state: Any = None
    items: dict[Any, Any] | None = None
    elements: list[Any] | None = None


@dataclass(slots=True, eq=False)
class Persistent:
    """A reference to data outside the pickle, in torch files a storage."""

    id: Any


_MARK = object()


class _Machine:
    """The state of one run: position, stack, memo."""

    def __init__(self, data: bytes, start: int) -> None:
        self.data = data
        self.at = start
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def take(self, count: int) -> bytes:
        end = self.at + count
        if end > len(self.data):
            raise Ended("the pickle ends early")
        piece = self.data[self.at : end]
        self.at = end
        return piece

    def line(self) -> str:
        end = self.data.find(b"\n", self.at, self.at + 1000)
        if end < 0:
            raise Ended("the pickle ends inside a name")
        piece = self.data[self.at : end]
        self.at = end + 1
        return piece.decode("ascii", "replace")

    def to_mark(self) -> list[Any]:
        for index in range(len(self.stack) - 1, -1, -1):
            if self.stack[index] is _MARK:
                taken = self.stack[index + 1 :]
                del self.stack[index:]
                return taken
        raise Refused("malformed pickle: no mark")

    def run(self) -> Any:
        data, table, size = self.data, _TABLE, len(self.data)
        stack, memo = self.stack, self.memo
        while self.at < size:
            opcode = data[self.at]
            self.at += 1
            # The memo is half of all opcodes: a call for each would be half of the time.
            if opcode == 0x94:  # MEMOIZE
                memo[len(memo)] = stack[-1]
                continue
            if opcode == 0x68 and self.at < size:  # BINGET
                stack.append(memo[data[self.at]])
                self.at += 1
                continue
            if opcode == 0x6A and self.at + 4 <= size:  # LONG_BINGET
                stack.append(memo[int.from_bytes(data[self.at : self.at + 4], "little")])
                self.at += 4
                continue
            if opcode == 0x71 and self.at < size:  # BINPUT
                memo[data[self.at]] = stack[-1]
                self.at += 1
                continue
            if opcode == 0x2E:  # STOP
                return stack.pop()
            handler = table[opcode]
            if handler is None:
                raise Refused(f"has the opcode {opcode:#04x}, which no checkpoint needs")
            handler(self)
        raise Ended("the pickle ends early")

    def whole_parts(self) -> Any:
        """What is on the stack of a run that ended early: the outermost container with all its whole parts."""
        while len(self.stack) > 1:
            index = next((i for i in range(len(self.stack) - 1, -1, -1) if self.stack[i] is _MARK), 1)
            parts = self.stack[index + 1 :] if self.stack[index] is _MARK else []
            del self.stack[index:]
            target = self.stack[-1]
            if isinstance(target, list):
                target.extend(parts)
            elif isinstance(target, dict) and len(self.stack) == 1:
                _set_items(target, parts[: len(parts) // 2 * 2])
            elif len(self.stack) > 1:
                self.stack.pop()  # a part that is not whole itself
        return self.stack[0] if self.stack else None


def read_torn_pickle(data: bytes) -> Any:
    """What a pickle that ends early holds: of its lists and of its outermost dict all parts that are whole.

    None where nothing is. Raises Refused as ``read_pickle`` does for what is not torn but malformed or hostile.
    """
    machine = _Machine(data, 0)
    try:
        return machine.run()
    except Ended:
        try:
            return machine.whole_parts()
        except (IndexError, KeyError, TypeError, ValueError) as error:
            raise Refused(f"malformed pickle ({type(error).__name__})") from error
    except (IndexError, KeyError, TypeError, ValueError, struct.error) as error:
        if isinstance(error, Refused):
            raise
        raise Refused(f"malformed pickle ({type(error).__name__})") from error


def read_pickle(data: bytes, start: int = 0) -> tuple[Any, int]:
    """The value of the pickle at ``start`` and the offset behind it.

    Raises Refused for names outside the allow-list and for anything malformed, Ended when bytes are missing.
    """
    machine = _Machine(data, start)
    try:
        return machine.run(), machine.at
    except Refused:
        raise
    except (IndexError, KeyError, TypeError, ValueError, struct.error) as error:
        raise Refused(f"malformed pickle ({type(error).__name__})") from error


_TABLE: list[Callable[[_Machine], None] | None] = [None] * 256


def _op(code: str) -> Callable[[Callable[[_Machine], None]], Callable[[_Machine], None]]:
    def register(handler: Callable[[_Machine], None]) -> Callable[[_Machine], None]:
        _TABLE[ord(code)] = handler
        return handler

    return register


def _constant(code: str, make: Callable[[], Any]) -> None:
    _TABLE[ord(code)] = lambda m: m.stack.append(make())


_constant("N", lambda: None)
_constant("\x88", lambda: True)
_constant("\x89", lambda: False)
_constant(")", tuple)
_constant("]", list)
_constant("}", dict)
_constant("\x8f", list)  # EMPTY_SET: a list, its items may be unhashable here
_constant("(", lambda: _MARK)


def _number(code: str, layout: str, size: int) -> None:
    unpack = struct.Struct(layout).unpack_from

    def handler(m: _Machine) -> None:
        at = m.at
        m.at = at + size
        if m.at > len(m.data):
            raise Ended("the pickle ends early")
        m.stack.append(unpack(m.data, at)[0])

    _TABLE[ord(code)] = handler


_number("K", "<B", 1)
_number("M", "<H", 2)
_number("J", "<i", 4)
_number("G", ">d", 8)


def _counted(code: str, layout: str, convert: Callable[[bytes], Any]) -> None:
    head = struct.Struct(layout)
    _TABLE[ord(code)] = lambda m: m.stack.append(convert(m.take(head.unpack(m.take(head.size))[0])))


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _long(raw: bytes) -> int:
    if len(raw) > 255:
        raise Refused("an integer of absurd length")
    return int.from_bytes(raw, "little", signed=True)


_counted("\x8c", "<B", _text)
_counted("X", "<I", _text)
_counted("\x8d", "<Q", _text)
_counted("U", "<B", _text)  # str of Python 2
_counted("T", "<I", _text)
_counted("C", "<B", bytes)
_counted("B", "<I", bytes)
_counted("\x8e", "<Q", bytes)
_counted("\x96", "<Q", bytes)
_counted("\x8a", "<B", _long)
_counted("\x8b", "<I", _long)


@_op("\x80")
def _protocol(m: _Machine) -> None:
    m.take(1)


@_op("\x95")
def _frame(m: _Machine) -> None:
    m.take(8)


@_op("0")
def _pop(m: _Machine) -> None:
    m.stack.pop()


@_op("1")
def _pop_mark(m: _Machine) -> None:
    m.to_mark()


@_op("2")
def _dup(m: _Machine) -> None:
    m.stack.append(m.stack[-1])


def _tuple_of(count: int) -> Callable[[_Machine], None]:
    def handler(m: _Machine) -> None:
        stack = m.stack
        if len(stack) < count:
            raise Refused("malformed pickle: stack too short")
        stack[-count:] = (tuple(stack[-count:]),)

    return handler


for _code, _count in (("\x85", 1), ("\x86", 2), ("\x87", 3)):
    _TABLE[ord(_code)] = _tuple_of(_count)


@_op("t")
def _tuple(m: _Machine) -> None:
    m.stack.append(tuple(m.to_mark()))


@_op("l")
@_op("\x91")
def _list(m: _Machine) -> None:
    m.stack.append(m.to_mark())


@_op("d")
def _dict(m: _Machine) -> None:
    pairs = m.to_mark()
    m.stack.append({})
    _set_items(m.stack[-1], pairs)


def _append_to(target: Any, values: list[Any]) -> None:
    if isinstance(target, list):
        target.extend(values)
    elif isinstance(target, Call):
        if target.elements is None:
            target.elements = []
        target.elements.extend(values)
    else:
        raise Refused("malformed pickle: append to no list")


@_op("a")
def _append(m: _Machine) -> None:
    value = m.stack.pop()
    _append_to(m.stack[-1], [value])


@_op("e")
@_op("\x90")
def _appends(m: _Machine) -> None:
    values = m.to_mark()
    _append_to(m.stack[-1], values)


def _key(value: Any) -> Any:
    """A key whose hash costs nothing: nested tuples that share parts would cost exponential time."""
    if isinstance(value, str | Call):
        return value
    if isinstance(value, tuple):
        if any(isinstance(part, tuple) for part in value):
            raise Refused("a nested tuple as a key")
    elif isinstance(value, list | dict) or (isinstance(value, int) and value.bit_length() > 60):
        raise Refused("a key that cannot be one")
    return value


def _set_items(target: Any, flat: list[Any]) -> None:
    if isinstance(target, Call):
        if target.items is None:
            target.items = {}
        items = target.items
    else:
        items = target
    if not isinstance(items, dict) or len(flat) % 2:
        raise Refused("malformed pickle: items of no dict")
    for index in range(0, len(flat), 2):
        items[_key(flat[index])] = flat[index + 1]


@_op("s")
def _set_item(m: _Machine) -> None:
    value, key = m.stack.pop(), m.stack.pop()
    _set_items(m.stack[-1], [key, value])


@_op("u")
def _set_many(m: _Machine) -> None:
    flat = m.to_mark()
    _set_items(m.stack[-1], flat)


@_op("q")
def _binput(m: _Machine) -> None:
    m.memo[m.take(1)[0]] = m.stack[-1]


@_op("r")
def _long_binput(m: _Machine) -> None:
    m.memo[int.from_bytes(m.take(4), "little")] = m.stack[-1]


@_op("\x94")
def _memoize(m: _Machine) -> None:
    m.memo[len(m.memo)] = m.stack[-1]


@_op("h")
def _binget(m: _Machine) -> None:
    m.stack.append(m.memo[m.take(1)[0]])


@_op("j")
def _long_binget(m: _Machine) -> None:
    m.stack.append(m.memo[int.from_bytes(m.take(4), "little")])


def _global(module: Any, name: Any) -> Global:
    full = f"{module}.{name}"
    if not isinstance(module, str) or not isinstance(name, str) or len(full) > 500:
        raise Refused("malformed pickle: no name")
    if full not in ALLOWED_NAMES:
        parts = full.split(".")
        if any(".".join(parts[:level]) in EXECUTING for level in range(1, len(parts) + 1)):
            raise Hostile(full)
        if parts[0] not in ALLOWED:
            raise Foreign(f"names {full}")
    return Global(full)


@_op("c")
def _named(m: _Machine) -> None:
    m.stack.append(_global(m.line(), m.line()))


@_op("\x93")
def _stack_global(m: _Machine) -> None:
    name, module = m.stack.pop(), m.stack.pop()
    m.stack.append(_global(module, name))


@_op("Q")
def _persistent(m: _Machine) -> None:
    m.stack.append(Persistent(m.stack.pop()))


def _called(target: Any, args: Any) -> Any:
    if not isinstance(target, Global) or not isinstance(args, tuple):
        raise Refused("a call of something that is no name")
    if target.name in FRESH_DICTS:
        # Items follow by opcodes of their own; as an argument, one list could be made into many dicts.
        if any(isinstance(argument, list | dict) and argument for argument in args):
            raise Refused("a dict made from a list")
        return {}
    if target.name in SEQUENCES and len(args) == 1 and isinstance(args[0], list | tuple):
        return args[0]
    return Call(target.name, args)


@_op("R")
@_op("\x81")
def _call(m: _Machine) -> None:
    args, target = m.stack.pop(), m.stack.pop()
    m.stack.append(_called(target, args))


@_op("\x92")
def _call_with_keywords(m: _Machine) -> None:
    keywords, args, target = m.stack.pop(), m.stack.pop(), m.stack.pop()
    made = _called(target, args)
    if isinstance(made, Call):
        made.state = keywords
    m.stack.append(made)


@_op("b")
def _build(m: _Machine) -> None:
    state = m.stack.pop()
    if isinstance(m.stack[-1], Call):
        m.stack[-1].state = state
    # State of a dict (hooks of an OrderedDict, say) carries nothing a reader of checkpoints wants.
