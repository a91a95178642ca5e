"""The next steps of a diagnosis: what to look at, what works around the failure, what repairs it."""

from __future__ import annotations

import re
import shlex

from correlator.attribution.sources import heard_ranks, kernel_log_nodes
from correlator.cascade.model import Facts, Finding
from correlator.diagnosis import Action, Verify
from correlator.phrases import named_ranks
from correlator.signatures import Signature

_STEPS = 5
#: What the reader of a diagnosis has just done.
_DONE = "correlator diagnose LOGS"


def actions_for(
    facts: Facts, chosen: Finding, signature: Signature | None, job_id: str | None, advice: str = ""
) -> list[Action]:
    """The steps of the entry, those that only look first; where it is open whose fault it was, what would decide.

    ``advice``: the step that follows from the job's own numbers, if any.
    """
    values = _values(facts, chosen, job_id)
    actions = [
        Action.of(step.kind, step.do, _filled(step.command, values), step.why, step.stopgap)
        for step in (signature.steps if signature else ())
        if step.command != _DONE and not (facts.recorded.ranks and "flight recorder" in step.do)
    ]
    if advice:
        actions.insert(0, Action.of("changes-config", advice, why="worked out on the numbers in these logs"))
    actions = actions[:_STEPS]
    if chosen.class_ == "unknown" or not actions:
        actions += [collect(what) for what in missing_sources(facts, chosen)[:2]]
        if chosen.control:
            actions.append(Action.of("read-only", "Tell the explanations apart", why=chosen.control))
    return actions


def collect(what: str) -> Action:
    """The step that fetches a source which is missing."""
    return Action.of("read-only", f"Collect {what}", why="missing here; this may settle it")


def _values(facts: Facts, chosen: Finding, job_id: str | None) -> dict[str, str | None]:
    incident, row = chosen.incident, chosen.incident.first
    known = facts.topology.ranks.get(incident.ranks[0]) if len(incident.ranks) == 1 else None
    gpu = next((v for v in (row.gpu if row else None, known.gpu if known else None) if v is not None), None)
    pids = {e.row.pid for r in incident.ranks for e in facts.exits.get(r, ()) if e.row.pid is not None}
    pid = row.pid if row and row.pid is not None else pids.pop() if len(pids) == 1 else None
    return {
        "node": incident.nodes[0] if len(incident.nodes) == 1 else None,
        "rank": str(incident.ranks[0]) if len(incident.ranks) == 1 else None,
        "gpu": str(gpu) if gpu is not None else None,
        "pci_bus_id": (row.pci_bus_id if row else None) or (known.pci_bus_id if known else None),
        "pid": str(pid) if pid is not None else None,
        "job": job_id,
    }


#: Placeholders that entries write in capitals.
_CAPITALS = {"JOBID": "job", "JOB": "job", "NODE": "node", "PID": "pid"}


def _filled(command: str | None, values: dict[str, str | None]) -> str | None:
    """A command with its placeholders filled by shell-quoted values; unknown ones stay in capitals to be filled in."""
    if command is None:
        return None
    for name, value in values.items():
        command = command.replace("{" + name + "}", shlex.quote(value) if value is not None else name.upper())

    def known(found: re.Match[str]) -> str:
        value = values.get(_CAPITALS[found[0]])
        return shlex.quote(value) if value is not None else found[0]

    command = re.sub(rf"(?<![\w$-])(?:{'|'.join(_CAPITALS)})(?![\w=-])", known, command)
    return _on_node(command, values["node"])


#: Tools that speak about the machine they run on.
_LOCAL = re.compile(
    r"(?:sudo )?(?:nvidia-smi|nvidia-bug-report\.sh|ipmitool|dmesg|journalctl|dcgmi|ibstat|rocm-smi|amd-smi|lspci|"
    r"ethtool|edac-util|ras-mc-ctl|mlxlink|lsmod|free|df|sensors)\b"
)


def _on_node(command: str, node: str | None) -> str:
    """A command about the machine it runs on, sent to the node that is meant."""
    if node is None or not _LOCAL.match(command) or "\n" in command:
        return command
    plain = not re.search(r"[|&;<>()$`\"'*?#~]", command)
    return f"ssh {shlex.quote(node)} {command if plain else shlex.quote(command)}"


#: Where PyTorch's flight recorder writes up to 2.6 and later, unless TORCH_NCCL_DEBUG_INFO_TEMP_FILE says otherwise.
_DUMPS = "the flight-recorder dumps of all ranks (/tmp or ~/.cache/torch on each node, *_trace_rank_N)"


def missing_sources(facts: Facts, chosen: Finding | None = None) -> list[str]:
    """Usual sources that were not collected for the nodes in question, as phrases; the accused nodes come first."""
    kernel, unplaced = kernel_log_nodes(facts)
    suspects = [n for n in (chosen.incident.nodes if chosen else ()) if n not in kernel]
    nodes = suspects or [n for n in facts.topology.nodes if n not in kernel]
    missing = []
    if facts.judged("c10d.watchdog_timeout") and not facts.recorded.ranks:
        missing.append(_DUMPS)
    if unplaced and len(nodes) <= unplaced:
        pass  # theirs may be the logs that name no node
    elif nodes and len(nodes) <= 3:
        missing.append(f"the kernel log (dmesg -T) of {', '.join(nodes)}")
    elif nodes or not (kernel or unplaced):
        missing.append("the kernel logs (dmesg -T) of the nodes")
    ranks = facts.topology.ranks
    heard = heard_ranks(facts)
    absent = [r for r in facts.expected_ranks() if not ranks[r].collected and r not in heard]
    if absent and heard:
        missing.append(f"the logs of {named_ranks(absent)}, which are not here")
    elif absent:
        missing.append("logs that say which rank wrote which line (one file a rank, or torchrun --tee 3)")
    return missing


def verify_for(facts: Facts, signature: Signature | None) -> Verify:
    """What must be seen for the fix to count."""
    if signature is not None and signature.verify:
        return Verify(signature.verify)
    step = facts.step_near(None)
    passed = f"passes step {step + 1}" if step is not None else "completes its first step"
    return Verify(f"The next run {passed} on all ranks.")
