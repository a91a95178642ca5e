"""Shell scripts read, never run: :func:`read_script` gives the commands a script would start and what it knows of them.

tree-sitter's Bash grammar reads the text; here the tree is walked in the order of execution. A variable that two ways
through the script leave with two values is unknown behind them, and so is everything that only running could tell:
``$(…)``, arguments, variables from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import PurePath
from typing import TYPE_CHECKING

from correlator.errors import UsageError
from correlator.preflight.expansion import assign, expand, heredoc_text
from correlator.preflight.model import Place, Unknown, Word
from correlator.preflight.scope import Scope, is_one_word, merge

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

#: Bytes of a script. A launch script has some kilobytes.
LONGEST = 1 << 20
#: Nested statements (a call of a function counts ten), and statements followed in all: functions may call themselves.
_DEEPEST = 60
_MOST_STATEMENTS = 20_000

_DIRECTIVE = re.compile(rb"^#(SBATCH|PBS|BSUB)[ \t]+(.*?)[ \t]*\r?$", re.M)
_DECLARE = ("export", "local", "declare", "readonly", "typeset")
#: Statements that hold others, walked in their order.
_SEQUENCES = ("program", "compound_statement", "do_group", "pipeline", "negated_command")
_BRANCHES = ("elif_clause", "else_clause", "case_item")


@dataclass(frozen=True)
class Command:
    """A command as it would be started. ``environment``: exported variables; ``files``: where its output goes."""

    words: tuple[Word, ...]
    environment: Mapping[str, Word]
    place: Place
    files: tuple[Word, ...] = ()
    piped: bool = False


@dataclass
class Script:
    """What was read of a script. ``directives``: words behind ``#SBATCH``; ``written``: files it writes itself."""

    name: str
    commands: list[Command] = field(default_factory=list)
    directives: list[tuple[str, Place]] = field(default_factory=list)
    written: dict[str, tuple[Word, Place]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@lru_cache(maxsize=1)
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def directives_of(data: bytes, name: str) -> list[tuple[str, Place]]:
    """The scheduler's options in the comments of a script, in their order, up to the first command."""
    found = []
    for match in _DIRECTIVE.finditer(data):
        before = data[: match.start()]
        if any(line.strip() and not line.lstrip().startswith(b"#") for line in before.splitlines()):
            break  # the schedulers stop reading here
        text = match[0].decode(errors="replace").rstrip()
        found.append((match[2].decode(errors="replace"), Place(name, before.count(b"\n") + 1, text)))
    return found


def read_script(data: bytes, name: str, given: Mapping[str, Word], arguments: Sequence[Word] = ()) -> Script:
    """Reads a script that is started with the exported variables ``given`` and with ``arguments``.

    Raises UsageError where it is too large to be a script.
    """
    if len(data) > LONGEST:
        raise UsageError(f"{name} has {len(data)} bytes; that is no launch script")
    script = Script(name, directives=directives_of(data, name))
    scope = Scope(name, dict(given), set(given), list(arguments))
    walker = _Walker(script, data.replace(b"\r\n", b"\n"), {})
    root = _parser().parse(walker.data).root_node
    if root.has_error:
        script.notes.append(f"{name}: {walker.torn(root)}")
    walker.walk(root, scope, 0)
    return script


def _assignments_behind(command: Node, assignment: Node) -> list[Node]:
    found = [child for child in command.named_children if child.type == "variable_assignment"]
    return [child for child in found if child.start_byte > assignment.start_byte]


@dataclass
class _Walker:
    script: Script
    data: bytes
    functions: dict[str, Node]
    lines: list[str] = field(init=False)
    followed: int = 0

    def __post_init__(self) -> None:
        self.lines = self.data.decode(errors="replace").split("\n")

    def place(self, node: Node) -> Place:
        row = node.start_point[0]
        return Place(self.script.name, row + 1, self.lines[row].strip() if row < len(self.lines) else "")

    def torn(self, root: Node) -> str:
        pending = [root]
        while pending:
            node = pending.pop()
            if node.is_error or node.is_missing:
                return f"line {node.start_point[0] + 1} is not understood as Bash; commands near it may be left out"
            pending += reversed([child for child in node.children if child.has_error or child.is_missing])
        return "not all of it is understood as Bash"

    def walk(self, node: Node, scope: Scope, depth: int) -> None:
        """Follows one statement, in the order of execution."""
        self.followed += 1
        if depth > _DEEPEST or self.followed > _MOST_STATEMENTS:
            return
        kind = node.type
        if kind in _SEQUENCES or kind == "ERROR":
            first = len(self.script.commands)
            for child in node.named_children:
                self.walk(child, scope, depth + 1)
            if kind == "pipeline":
                self.mark_piped(first)
        elif kind == "command":
            self.command(node, scope, depth)
        elif kind == "redirected_statement":
            self.redirected(node, scope, depth)
        elif kind in ("variable_assignment", "variable_assignments"):
            for one in node.named_children if kind == "variable_assignments" else [node]:
                assign(scope, one, exported=False)
        elif kind == "declaration_command":
            self.declaration(node, scope)
        elif kind == "unset_command":
            for child in node.named_children:
                scope.unset(child.text.decode(errors="replace") if child.text else "")
        elif kind == "function_definition":
            name, body = node.child_by_field_name("name"), node.child_by_field_name("body")
            if name is not None and name.text and body is not None:
                self.functions[name.text.decode(errors="replace")] = body
        elif kind == "subshell":
            inner = scope.copy()
            for child in node.named_children:
                self.walk(child, inner, depth + 1)
        elif kind == "list":
            self.walk(node.named_children[0], scope, depth + 1)
            if len(node.named_children) > 1:
                self.branch([node.named_children[1:]], scope, depth, node)
        elif kind in ("if_statement", "case_statement"):
            self.choice(node, scope, depth)
        elif kind in ("for_statement", "while_statement", "c_style_for_statement"):
            self.loop(node, scope, depth)

    def ends_line(self, node: Node) -> bool:
        """Whether an unescaped line break follows a node."""
        rest = self.data[node.end_byte : self.data.find(b"\n", node.end_byte) + 1]
        return rest.strip(b" \t") == b"\n"

    def mark_piped(self, first: int) -> None:
        commands = self.script.commands
        for at in range(first, len(commands) - 1):
            # `| tee FILE` keeps what the command prints.
            tail = [word.text for word in commands[-1].words]
            names = [w for w in commands[-1].words[1:] if not w.start.startswith("-")] if tail[:1] == ["tee"] else []
            commands[at] = replace(commands[at], files=(*commands[at].files, *names), piped=True)

    def choice(self, node: Node, scope: Scope, depth: int) -> None:
        own: list[Node] = []
        branches: list[list[Node]] = [own]
        for child in node.named_children:
            if child.type in _BRANCHES:
                branches.append(list(child.named_children))
            elif child.type != "comment":
                own.append(child)
        closed = any(child.type == "else_clause" for child in node.named_children)
        self.branch(branches if node.type == "if_statement" else branches[1:], scope, depth, node, closed)

    def branch(
        self, branches: Sequence[Sequence[Node]], scope: Scope, depth: int, node: Node, closed: bool = False
    ) -> None:
        """Each branch with its own copy of the variables; behind them only what all agree on is known."""
        ends = [] if closed else [scope.copy()]
        for statements in branches:
            inner = scope.copy()
            for statement in statements:
                self.walk(statement, inner, depth + 1)
            ends.append(inner)
        merge(scope, ends, node.start_point[0] + 1)

    def loop(self, node: Node, scope: Scope, depth: int) -> None:
        body = node.child_by_field_name("body")
        variable = node.child_by_field_name("variable")
        inner = scope.copy()
        line = node.start_point[0] + 1
        if variable is not None and variable.text:
            name = variable.text.decode(errors="replace")
            values = [word for child in node.children_by_field_name("value") for word in expand(child, scope)]
            one = bool(values) and all(map(is_one_word, values))
            inner.variables[name] = Word((Unknown(f"${name} changes in the loop of line {line}", one=one),))
        if body is not None:
            self.walk(body, inner, depth + 1)
        merge(scope, [scope.copy(), inner], line)

    def declaration(self, node: Node, scope: Scope) -> None:
        keyword = node.children[0].type
        options = [c.text for c in node.named_children if c.type == "word"]
        exported = keyword == "export" or b"-x" in options
        for child in node.named_children:
            if child.type == "variable_assignment":
                assign(scope, child, exported)
            elif child.type == "variable_name" and exported and child.text:
                scope.exported.add(child.text.decode(errors="replace"))

    def redirected(self, node: Node, scope: Scope, depth: int) -> None:
        first = len(self.script.commands)
        body = node.child_by_field_name("body")
        if body is not None:
            self.walk(body, scope, depth + 1)
        files, heredoc = [], None
        for child in node.named_children:
            if child.type == "file_redirect":
                target = child.child_by_field_name("destination")
                marks = {c.type for c in child.children}
                if target is not None and marks & {">", ">>", "&>", "&>>"}:
                    files += expand(target, scope)
            elif child.type == "heredoc_redirect":
                heredoc = heredoc_text(child, scope, self.data)
                files += [
                    word
                    for inner in child.named_children
                    if inner.type == "file_redirect" and (target := inner.child_by_field_name("destination"))
                    for word in expand(target, scope)
                ]
        commands = self.script.commands
        for at in range(first, len(commands)):
            commands[at] = replace(commands[at], files=(*commands[at].files, *files))
        if heredoc is not None:
            for word in files:
                if word.text:
                    self.script.written[PurePath(word.text).name] = (heredoc, self.place(node))

    def command(self, node: Node, scope: Scope, depth: int) -> None:
        words: list[Word] = []
        own = scope.copy()
        for child in node.named_children:
            if child.type == "variable_assignment":
                # The grammar takes `A=1 B=2` and the command of the next line as one; the shell does not.
                alone = self.ends_line(child) or any(self.ends_line(c) for c in _assignments_behind(node, child))
                assign(own, child, exported=not alone)
                if alone:
                    assign(scope, child, exported=False)
            elif child.type == "command_name":
                words += expand(child.named_children[0], scope) if child.named_children else []
            elif child.type not in ("file_redirect", "heredoc_redirect", "herestring_redirect", "comment"):
                words += expand(child, scope)
        name = words[0].text if words else None
        if name in self.functions:
            inner = replace(own, arguments=words[1:])
            self.walk(self.functions[name], inner, depth + 10)
            scope.variables.update(inner.variables)
            return
        if name == "set" and len(words) > 1 and words[1].text == "--":
            scope.arguments[:] = words[2:]
        elif name == "shift" and scope.arguments:
            del scope.arguments[0]
        elif name in ("source", ".") and len(words) > 1:
            what = words[1].text or "a file"
            self.script.notes.append(f"{self.script.name}:{node.start_point[0] + 1}: {what} is sourced and not read")
        elif name == "read":
            for word in words[1:]:
                if word.text and not word.text.startswith("-"):
                    scope.variables[word.text] = Word((Unknown(f"${word.text} is read from a stream"),))
        if words:
            exported = {key: own.variables[key] for key in sorted(own.exported) if key in own.variables}
            known = {key: value for key, value in exported.items() if isinstance(value, Word)}
            self.script.commands.append(Command(tuple(words), known, self.place(node)))
