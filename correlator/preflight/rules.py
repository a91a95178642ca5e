"""The rules as data: TOML files in ``data/rules``, each rule an arithmetic condition with its source and examples."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Annotated, Any

import msgspec

from correlator.preflight.conditions import NotStated, evaluate, names_in
from correlator.preflight.facts import Facts
from correlator.preflight.model import Finding, Place, Scalar, Severity, Unknown
from correlator.preflight.programs import fill_defaults

_HOLE = re.compile(r"\{([^{}]+)\}")
_Text = Annotated[str, msgspec.Meta(min_length=1)]
_Values = dict[str, Scalar | tuple[Scalar, ...] | None]


class Rule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One way a launch fails.

    ``wrong``: the condition under which it does; ``let``: names for parts of it. ``why`` and ``fix`` are sentences with
    ``{expression}`` for numbers, ``paste`` lines as they are. ``frameworks``: whose arguments it is about; empty: any
    launch. ``source``: the file and function that says so, ``versions``: in which. ``logs``: asked by ``--lint-logs``
    only. ``fires`` and ``quiet``: settings under which it must and must not be said.
    """

    id: _Text
    title: _Text
    severity: Severity
    wrong: _Text
    why: _Text
    fix: _Text
    source: _Text
    versions: str = ""
    frameworks: tuple[str, ...] = ()
    let: dict[str, str] = {}
    at: tuple[str, ...] = ()
    paste: tuple[str, ...] = ()
    entry: str | None = None
    logs: bool = False
    fires: tuple[_Values, ...]
    quiet: tuple[_Values, ...]

    def names(self) -> list[str]:
        """Every setting that the condition looks at."""
        found = [name for text in (*self.let.values(), self.wrong) for name in names_in(text)]
        return [name for name in dict.fromkeys(found) if name not in self.let]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    rule: tuple[Rule, ...]


@lru_cache(maxsize=1)
def load_rules() -> tuple[Rule, ...]:
    """All rules, by file and place in it."""
    folder = files("correlator.preflight").joinpath("data/rules")
    found: list[Rule] = []
    for path in sorted(folder.iterdir(), key=lambda one: one.name):
        if path.name.endswith(".toml"):
            found += msgspec.convert(tomllib.loads(path.read_text("utf-8")), _File).rule
    return tuple(found)


def check_rule(rule: Rule, facts: Facts) -> Finding | Unknown | bool | None:
    """What a rule says: a finding, True (checked and fine), why it cannot be checked, or None (it does not apply)."""
    if rule.frameworks and not facts.frameworks & set(rule.frameworks):
        return None
    lookup = _Lookup(rule, facts)
    try:
        wrong = evaluate(rule.wrong, lookup)
    except NotStated:
        return None
    if isinstance(wrong, Unknown):
        return wrong
    if not wrong:
        return True
    return Finding(
        rule=rule.id,
        severity=rule.severity,
        title=rule.title,
        why=filled(rule.why, lookup),
        fix=filled(rule.fix, lookup),
        paste=list(rule.paste),
        entry=rule.entry,
        places=list(_places(rule, facts)),
        source=f"{rule.source} ({rule.versions})" if rule.versions else rule.source,
    )


class _Lookup:
    """Names of a rule: its own ``let``, then the settings."""

    def __init__(self, rule: Rule, facts: Facts) -> None:
        self.rule, self.facts, self.depth = rule, facts, 0

    def __call__(self, name: str) -> Any:
        if name in self.rule.let:
            return evaluate(self.rule.let[name], self)
        return self.facts.get(name)


def _places(rule: Rule, facts: Facts) -> Iterator[Place]:
    names = rule.at or tuple(rule.names())
    seen: dict[Place, None] = {}
    for name in names:
        setting = facts.settings.get(name)
        if setting is not None and setting.place is not None:
            seen[setting.place] = None
    if not seen and facts.place is not None:
        seen[facts.place] = None
    yield from seen


def filled(text: str, lookup: Any) -> str:
    """The sentence with its numbers; what is not known or not stated is said to be so."""

    def one(found: re.Match[str]) -> str:
        try:
            value = evaluate(found[1], lookup)
        except NotStated:
            value = None
        if isinstance(value, Unknown):
            return "unknown"
        if isinstance(value, float):
            return f"{value:.6g}"
        return "not set" if value is None else str(value)

    return _HOLE.sub(one, text)


def example_facts(rule: Rule, values: Mapping[str, Any]) -> Facts:
    """Facts for an example of a rule: its settings, nothing else; None stands for a value that is not stated."""
    facts = Facts(frameworks=set(rule.frameworks))
    for name, value in values.items():
        facts.put(name, value)
    fill_defaults(facts)
    return facts
