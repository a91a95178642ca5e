"""The way from what would be launched to findings: :func:`examine` and its short form :func:`check`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from correlator.preflight.facts import Facts, product
from correlator.preflight.fit import check_checkpoint
from correlator.preflight.gather import gather
from correlator.preflight.model import SEVERITIES, Finding, NotChecked, Report, Unknown
from correlator.preflight.programs import fill_defaults
from correlator.preflight.rules import check_rule, load_rules

#: Names by which people know the sizes; what a launch line shows.
_SHOWN = (
    ("world_size", "ranks"), ("nodes", "nodes"), ("processes_per_node", "per node"),
    ("tensor_model_parallel_size", "TP"), ("pipeline_model_parallel_size", "PP"), ("context_parallel_size", "CP"),
    ("expert_model_parallel_size", "EP"), ("data_parallel_size", "DP"),
)  # fmt: skip


def check(args: Sequence[str] | Mapping[str, Any] | object, **more: Any) -> list[Finding]:
    """Findings about a launch, the gravest first; an empty list where nothing is wrong.

    ``args``: the words of a launch command (``["torchrun", "--nproc-per-node=8", …]``), or the parsed arguments of a
    training program (a mapping or an ``argparse.Namespace``). ``more``: the keywords of :func:`examine`. Nothing is
    run or imported, and the process's own environment counts only with ``environment=os.environ``.
    """
    return examine(args, **more).findings


def examine(
    args: Sequence[str] | Mapping[str, Any] | object = (),
    *,
    scripts: Iterable[str | Path] = (),
    configs: Iterable[str | Path] = (),
    checkpoint: str | Path | None = None,
    world_size: int | None = None,
    environment: Mapping[str, str] | None = None,
    lint_logs: bool = False,
) -> Report:
    """The full report: findings, what could not be checked and why, and what was read.

    ``environment``: variables that the launch inherits. Raises UsageError for files that cannot be read, and where
    there is nothing to check.
    """
    gathered = gather(args, scripts, configs, environment or {})
    findings: dict[tuple[Any, ...], Finding] = {}
    unknown: dict[str, dict[str, None]] = {}
    checked: dict[str, None] = {}
    notes = list(gathered.notes)
    for facts in gathered.facts:
        derive(facts, world_size)
        for rule in load_rules():
            if rule.logs and not lint_logs:
                continue
            said = check_rule(rule, facts)
            if said is None:
                continue
            if isinstance(said, Unknown):
                unknown.setdefault(said.why, {})[rule.id] = None
                continue
            checked[rule.id] = None
            if isinstance(said, Finding):
                findings.setdefault((said.rule, said.why), said)
        if checkpoint is not None:
            for said in check_checkpoint(Path(checkpoint), facts):
                findings.setdefault((said.rule, said.why), said)
    return Report(
        launches=list(dict.fromkeys(map(_line, gathered.facts))),
        findings=sorted(findings.values(), key=lambda one: SEVERITIES.index(one.severity)),
        not_checked=[NotChecked(why=why, rules=list(rules)) for why, rules in unknown.items()],
        notes=list(dict.fromkeys(notes)),
        checked=len(checked),
    )


def derive(facts: Facts, world_size: int | None = None) -> None:
    """Completes the facts: defaults of the framework, the size stated by the caller, the data-parallel size."""
    fill_defaults(facts)
    for name in ("nodes", "processes_per_node"):
        if name not in facts.settings and (stated := facts.settings.get(f"nemo.{name}")):
            facts.settings[name] = stated
    if facts.get("world_size") is None:
        facts.put("world_size", product(facts.get("nodes"), facts.get("processes_per_node")))
    if world_size is not None:
        facts.put("stated_world_size", world_size)
        if not isinstance(facts.get("world_size"), int):
            facts.put("world_size", world_size)
    sizes = [facts.get(f"{axis}_model_parallel_size") for axis in ("tensor", "pipeline")]
    model = product(*sizes, facts.get("context_parallel_size"))
    facts.put("model_size", model)
    world = facts.get("world_size")
    if isinstance(world, int) and isinstance(model, int):
        if model > 0 and world % model == 0:
            facts.put("data_parallel_size", world // model)
    else:
        facts.put("data_parallel_size", next((v for v in (world, model) if isinstance(v, Unknown)), None))


def _line(facts: Facts) -> str:
    place = facts.place
    where = f"{place.file}:{place.line}" if place and place.line else place.file if place else "given arguments"
    sizes = []
    for name, label in _SHOWN:
        value = facts.get(name)
        if isinstance(value, Unknown):
            sizes.append(f"{label} unknown")
        elif value is not None:
            sizes.append(f"{label} {value}")
    who = ", ".join(sorted(facts.frameworks)) or "no framework recognised"
    return f"{where}: {facts.get('launcher') or 'configuration'}, {who}: {', '.join(sizes) or 'no sizes stated'}"
