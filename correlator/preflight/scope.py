"""The variables of a shell script as far as they are known, and what is left of them behind a branching."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from correlator.preflight.model import Unknown, Word

#: A variable: one word, or the words of an array.
Held = Word | tuple[Word, ...]

_SPECIAL = {
    "?": "an exit code", "$": "a process id", "!": "a process id", "0": "the script's own name", "-": "shell options",
    "_": "a word of the last command", "RANDOM": "a random number", "HOSTNAME": "the host's name",
}  # fmt: skip


@dataclass
class Scope:
    """Variables as the walk has left them. ``arguments``: those of the script or of the function."""

    script: str
    variables: dict[str, Held]
    exported: set[str]
    arguments: list[Word]

    def copy(self) -> Scope:
        """A scope of its own for a branch."""
        return replace(
            self, variables=dict(self.variables), exported=set(self.exported), arguments=list(self.arguments)
        )

    def unset(self, name: str) -> None:
        """Forgets a variable."""
        self.variables.pop(name, None)
        self.exported.discard(name)

    def get(self, name: str) -> Held:
        """The value of ``$name``; unknown where nothing in the script says it."""
        if name in ("@", "*"):
            return tuple(self.arguments)
        if name == "#":
            return Word((str(len(self.arguments)),))
        if name.isdecimal() and 0 < int(name[:9]) <= len(self.arguments):
            return self.arguments[int(name[:9]) - 1]
        if name in self.variables:
            return self.variables[name]
        if name.isdecimal() and name != "0":
            return Word((Unknown(f"${name}: no such argument is given to {self.script}"),))
        if name in _SPECIAL:
            return Word((Unknown(f"${name} is {_SPECIAL[name]}"),))
        by_slurm = " (Slurm sets it in the job)" if name.startswith("SLURM_") else ""
        return Word((Unknown(f"${name} is not set in {self.script}{by_slurm}"),))


def merge(scope: Scope, ends: Sequence[Scope], line: int) -> None:
    """Behind a branching: what every way leaves alike stays, the rest is unknown."""
    names = dict.fromkeys(name for end in ends for name in end.variables)
    for name in names:
        held = [end.variables.get(name) for end in ends]
        if all(one == held[0] for one in held):
            if held[0] is not None:
                scope.variables[name] = held[0]
            continue
        one = all(isinstance(word, Word) and is_one_word(word) for word in held)
        why = Unknown(f"${name} depends on the branch of line {line}", _options_in(held), one)
        scope.variables[name] = Word((why,), many=any(isinstance(one, tuple) for one in held))
    scope.exported |= {name for end in ends for name in end.exported}


def is_one_word(value: Word) -> bool:
    """Whether a variable with this value is one word where it stands without quotes."""
    return bool(value.text) and not re.search(r"[\s*?\[]", value.text or "")


def _options_in(alternatives: Sequence[Held | None]) -> tuple[str, ...] | None:
    """The options that stand in any of the values a variable may have; None where one of them is not known."""
    found: dict[str, None] = {}
    for held in alternatives:
        for word in held if isinstance(held, tuple) else (held,) if held is not None else ():
            if word.many and word.unknown:
                return None
            for part in (word.text or word.start).split():
                if part.startswith("--"):
                    found[part.partition("=")[0]] = None
    return tuple(found) if all(held is not None for held in alternatives) else None
