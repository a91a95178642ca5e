"""Masks what must not leave the house: tokens, users, addresses, and as chosen hosts, accounts and paths.

A value that was recognised once, by its form or by the name it was given, is masked wherever it stands, so the answer
does not depend on the place. Lines stay lines: nothing that is masked holds a line break, so line numbers stay true.
Serials, UUIDs and PCI addresses are no value of any rule: without them nothing can be returned.
"""

from __future__ import annotations

import ipaddress
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from importlib import import_module
from importlib.resources import files
from typing import Any, NamedTuple

from correlator.bundle.placeholders import PREFIX, Placeholders
from correlator.errors import UsageError

#: What stays, and why it is said.
KEPT_ALWAYS = ("GPU serial numbers", "GPU UUIDs", "PCI addresses", "board and part numbers", "firmware versions")
_KIND_WORDS = {"ip": "IP addresses", "mac": "MAC addresses", "host": "host names", "account": "account and run names",
               "path": "paths of data and code", "user": "user names", "email": "e-mail addresses"}  # fmt: skip
#: Shorter values are masked only where a rule finds them: as words they occur everywhere.
_SHORTEST_WORD = 3
_SHORTEST_SECRET = 6
_KEY_LINE = r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
_KEY = re.compile(_KEY_LINE + r"(?P<body>.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)", re.DOTALL)
_KEY_BODY_LINE = re.compile(r"[A-Za-z0-9+/=]{16,}")
#: A key whose end is further away than this was cut off.
_LONGEST_KEY = 1 << 14


class Rule(NamedTuple):
    """One kind of value and the expression that finds it."""

    kind: str
    name: str
    regex: re.Pattern[str]
    check: str
    hits: tuple[str, ...]
    misses: tuple[str, ...]


class _Rules(NamedTuple):
    rules: tuple[Rule, ...]
    levels: dict[str, tuple[str, ...]]
    system_users: frozenset[str]
    detectors: tuple[re.Pattern[str], ...]


@lru_cache(maxsize=1)
def load_rules() -> _Rules:
    """The rules as data, with the expressions of detect-secrets' own detectors."""
    data = tomllib.loads((files("correlator.bundle") / "data" / "redaction.toml").read_text(encoding="utf-8"))
    rules = tuple(
        Rule(
            entry["kind"],
            entry["name"],
            re.compile(entry["regex"], re.MULTILINE),
            entry.get("check", ""),
            tuple(entry["hits"]),
            tuple(entry["misses"]),
        )
        for entry in data["rule"]
    )
    levels = {name: tuple(kinds) for name, kinds in data["levels"].items()}
    return _Rules(rules, levels, frozenset(data["system_users"]), tuple(_detectors(data["detectors"]["names"])))


def _detectors(names: Sequence[str]) -> Iterator[re.Pattern[str]]:
    for name in names:
        module, _, detector = name.partition(".")
        yield from getattr(import_module(f"detect_secrets.plugins.{module}"), detector).denylist


def kinds_at(level: str, mask: Sequence[str] = (), keep: Sequence[str] = ()) -> tuple[str, ...]:
    """The kinds that a level masks, with those of ``mask`` and without those of ``keep``.

    Raises UsageError for a level or kind that there is none of.
    """
    rules = load_rules()
    if level not in rules.levels:
        raise UsageError(f"no redaction level {level!r}; known are {', '.join(rules.levels)}")
    known = rules.levels["strict"]
    for kind in (*mask, *keep):
        if kind not in known:
            raise UsageError(f"no kind of value {kind!r}; known are {', '.join(known)}")
    wanted = {*rules.levels[level], *mask} - set(keep)
    return tuple(kind for kind in known if kind in wanted)


class Redactor:
    """Masks texts of one case. ``learn`` all of them first, so that a value is masked before it is explained."""

    def __init__(self, placeholders: Placeholders, kinds: Sequence[str], hosts: Sequence[str] = ()) -> None:
        """``hosts``: names of machines, in the order in which they are numbered."""
        self.placeholders = placeholders
        self.kinds = tuple(kinds)
        self._rules = [rule for rule in load_rules().rules if rule.kind in kinds]
        self._detectors = load_rules().detectors if "key" in kinds else ()
        self._words: re.Pattern[str] | None = None
        self._known = -1
        self._of: dict[str, str] = {}
        if "host" in kinds:
            placeholders.add_all("host", [host for host in hosts if len(host) >= _SHORTEST_WORD])

    def learn(self, text: str) -> None:
        """Finds the values in a text and gives them placeholders."""
        if self.kinds:
            self._masked_by_rules(text)

    def text(self, text: str) -> str:
        """The text with everything masked; as many lines as before."""
        if not self.kinds or not text:
            return text
        return self._masked_words(self._masked_by_rules(text))

    def raw(self, data: bytes) -> bytes:
        """The same for bytes in any encoding; bytes that are no UTF-8 stay as they are."""
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def data(self, value: Any) -> Any:
        """The same for every string in lists and dictionaries, keys included."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.data(key): self.data(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return [self.data(entry) for entry in value]
        return value

    def counts(self) -> dict[str, int]:
        """How many different values of each kind have a placeholder."""
        return {kind: len(values) for kind, values in sorted(self.placeholders.values.items()) if values}

    def kept(self) -> list[str]:
        """What is left in on purpose, in words."""
        return [*KEPT_ALWAYS, *(words for kind, words in _KIND_WORDS.items() if kind not in self.kinds)]

    def leak(self, text: str) -> str | None:
        """The name of a rule that still finds a value in a finished text, or of a value that stands in it; None."""
        for rule in self._rules:
            if any(True for _ in _values(rule, text)):
                return rule.name
        words = self._word_regex()
        return "a value that is masked elsewhere" if words and words.search(text) else None

    def _masked_by_rules(self, text: str) -> str:
        if "key" in self.kinds:
            text = _KEY.sub(self._masked_key, text)
        for rule in self._rules:
            text = self._replaced(text, list(_values(rule, text)), rule.kind)
        for regex in self._detectors:
            spans = [_span(found) for found in regex.finditer(text)]
            text = self._replaced(text, [s for s in spans if PREFIX not in text[s[0] : s[1]]], "key")
        return text

    def _replaced(self, text: str, spans: Sequence[tuple[int, int]], kind: str) -> str:
        if not spans:
            return text
        parts: list[str] = []
        position = 0
        for start, end in spans:
            if start < position:
                continue
            parts += [text[position:start], self.placeholders.get(kind, text[start:end])]
            position = end
        return "".join([*parts, text[position:]])

    def _masked_key(self, found: re.Match[str]) -> str:
        body = found["body"][:_LONGEST_KEY]
        masked = _KEY_BODY_LINE.sub(lambda line: self.placeholders.get("key", line[0]), body)
        return found[0].replace(body, masked, 1)

    def _masked_words(self, text: str) -> str:
        words = self._word_regex()
        return words.sub(lambda found: self._of[found[0]], text) if words else text

    def _word_regex(self) -> re.Pattern[str] | None:
        """Finds every value that has a placeholder, the longest first, as whole words."""
        size = sum(len(values) for kind, values in self.placeholders.values.items() if kind in self.kinds)
        if size != self._known:
            self._known = size
            self._of = {
                value: placeholder
                for kind, values in self.placeholders.values.items()
                if kind in self.kinds
                for value, placeholder in values.items()
                if _is_word(kind, value)
            }
            ordered = sorted(self._of, key=lambda value: (-len(value), value))
            alternatives = "|".join(map(re.escape, ordered))
            self._words = re.compile(rf"(?<![A-Za-z0-9])(?:{alternatives})(?![A-Za-z0-9])") if ordered else None
        return self._words


def _is_word(kind: str, value: str) -> bool:
    """Whether a value is masked wherever it stands, and not only where a rule finds it."""
    if kind == "user":
        return len(value) >= _SHORTEST_WORD
    return len(value) >= (_SHORTEST_SECRET if kind in ("key", "account", "path") else _SHORTEST_WORD)


def _span(found: re.Match[str]) -> tuple[int, int]:
    """The captured part of a detector's match, if it has one."""
    for group in range(1, (found.re.groups or 0) + 1):
        if found[group] and len(found[group]) >= _SHORTEST_SECRET:
            return found.span(group)
    return found.span()


def _values(rule: Rule, text: str) -> Iterator[tuple[int, int]]:
    check = _CHECKS.get(rule.check)
    for found in rule.regex.finditer(text):
        value = found["value"]
        if PREFIX not in value and (check is None or check(value, found)):
            yield found.span("value")


def _is_address4(value: str, found: re.Match[str]) -> bool:
    before = found.string[max(0, found.start("value") - 24) : found.start("value")].lower()
    if any(len(part) > 1 and part[0] == "0" for part in value.split(".")) or _VERSION_WORD.search(before):
        return False
    try:
        address = ipaddress.IPv4Address(value)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified or value.startswith("255."))


_VERSION_WORD = re.compile(r"(?:version|driver|firmware|release|nccl|cuda|cudnn|ofed|fw|rev|v)[\s:=\"'/_-]*$")


def _is_address6(value: str, found: re.Match[str]) -> bool:
    if not any(character.isdigit() for character in value):
        return False
    try:
        address = ipaddress.IPv6Address(value)
    except ValueError:
        return False
    return not (address.is_loopback or address.is_unspecified) and value.count(":") >= 2 and len(value) > 5


def _is_user(value: str, found: re.Match[str]) -> bool:
    return value.lower() not in load_rules().system_users and len(value) > 1


def _is_host(value: str, found: re.Match[str]) -> bool:
    return value.lower() not in ("localhost", "none", "null", "unknown") and len(value) >= _SHORTEST_WORD


_EMPTY_WORDS = frozenset({"none", "null", "true", "false", "empty", "unset", "default", "required", "authentication"})
_PLAIN_WORD = re.compile(r"[a-z]+|[A-Z][a-z]+|[A-Z]+|[\d.,:-]+|\W+")


def _is_password(value: str, found: re.Match[str]) -> bool:
    """After a sign of assignment or an option anything; after a mere blank no plain word."""
    given = found[0][: found.start("value") - found.start()].rstrip("\"'")
    assigned = given.rstrip().endswith(("=", ":"))
    option = "--" in given
    plain = _PLAIN_WORD.fullmatch(value) is not None
    return (
        value.strip("*.").lower() not in _EMPTY_WORDS and bool(value.strip("*.")) and (assigned or option or not plain)
    )


def _is_token(value: str, found: re.Match[str]) -> bool:
    """Letters and digits mixed, and no path, function or list of words."""
    mixed = any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    return mixed and value[0] not in "/<|$%" and "://" not in value


_CHECKS: dict[str, Callable[[str, re.Match[str]], bool]] = {
    "ip4": _is_address4,
    "ip6": _is_address6,
    "user": _is_user,
    "host": _is_host,
    "password": _is_password,
    "token": _is_token,
}
