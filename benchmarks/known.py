"""Cases with a known truth, for the other scripts here: ``logs/`` beside ``case.toml`` (``CONTRIBUTING.md``)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import correlator
from correlator.diagnosis import Document
from correlator.pipeline import Diagnosis

#: From this confidence on an answer that names one rank accuses it.
ACCUSES = 0.5
_EXACT_UP_TO = 8


@dataclass(frozen=True)
class Case:
    """One crash. ``ranks`` and ``nodes`` are empty where the truth names none; ``everybody``: all failed alike."""

    name: str
    family: str
    logs: Path
    classes: tuple[str, ...]
    ranks: frozenset[int]
    nodes: frozenset[str]
    everybody: bool

    def diagnose(self, logs: Path | None = None) -> Diagnosis:
        """The diagnosis of these logs, or of a changed copy of them, read by one process."""
        return correlator.diagnose(logs or self.logs, workers=1)

    def class_right(self, class_: str) -> bool:
        """Whether the class is the true one or as good."""
        return class_ in self.classes

    def ranks_right(self, ranks: Iterable[int], everybody: bool) -> bool:
        """Whether exactly the true ranks are named; of many, half of them and no other."""
        named = set(ranks)
        if self.everybody and everybody:
            return True
        if len(self.ranks) <= _EXACT_UP_TO and not self.everybody:
            return named == self.ranks
        return bool(named) and named <= self.ranks and 2 * len(named) >= len(self.ranks)

    def nodes_right(self, nodes: Iterable[str], everybody: bool) -> bool:
        """Whether exactly the true nodes are named, domains aside."""
        return (self.everybody and everybody) or {short(n) for n in nodes} == self.nodes


def short(node: str) -> str:
    """A host's name without its domain."""
    return node if re.fullmatch(r"[\d.]+", node) else node.partition(".")[0]


def load_cases(folders: Sequence[Path]) -> list[Case]:
    """All cases below the folders, by name."""
    paths = sorted({path for folder in folders for path in folder.rglob("case.toml")})
    return [_load(path) for path in paths if (path.parent / "logs").is_dir()]


def _load(path: Path) -> Case:
    stated = tomllib.loads(path.read_text())
    truth = stated["truth"]
    return Case(
        name=path.parent.name,
        family=_family(str(stated.get("source", "")), path.parent.name),
        logs=path.parent / "logs",
        classes=(truth["class"], *truth.get("also_accept", [])),
        ranks=frozenset(truth.get("initiating_ranks") or []),
        nodes=frozenset(short(n) for n in truth.get("initiating_nodes") or []),
        everybody="all" in str(truth.get("scope", "")),
    )


def _family(source: str, name: str) -> str:
    """The project a report came from; for other cases the kind, which their names begin with."""
    parts = [part for part in urlsplit(source).path.split("/") if part]
    return "/".join(parts[:2]) if source.startswith("http") and parts else re.split(r"[-_\d]", name)[0]


def everybody(document: Document) -> bool:
    """Whether the answer says that all ranks failed alike."""
    return document.initiator.scope == "all"
