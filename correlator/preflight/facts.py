"""What a launch says about its size: nodes, processes, GPUs, rendezvous, limits, as settings for the rules."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from correlator.preflight.launch import Launch, Layer
from correlator.preflight.model import Place, Scalar, Setting, Unknown, Value, Word, together
from correlator.untrusted import read_number

_GPUS = re.compile(r"(?:^|,)(?:gres[:/])?(?:gpu:)?(?:[A-Za-z][\w.-]*:)?(\d+)(?:\(|,|$)")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")


@dataclass
class Facts:
    """Settings by name. ``hidden``: why options not seen may still be given; ``frameworks``: who reads them."""

    settings: dict[str, Setting] = field(default_factory=dict)
    hidden: dict[str, Unknown] = field(default_factory=dict)
    frameworks: set[str] = field(default_factory=set)
    place: Place | None = None
    program_names: frozenset[str] = frozenset()

    def put(self, name: str, value: Value | None, place: Place | None = None) -> None:
        """States a value; None states nothing."""
        if value is not None:
            self.settings[name] = Setting(value, place or self.place)

    def get(self, name: str) -> Value | None:
        """The value of a name; unknown where it may hide among words that are not known.

        ``program_names``: those without a dot that are options of the program.
        """
        if name in self.settings:
            return self.settings[name].value
        head, dot, _ = name.partition(".")
        if dot and head != "arg":
            return self.hidden.get(head)
        return self.hidden.get("program") if dot or name in self.program_names else None


def scalar(text: str) -> Scalar:
    """A word as the number or truth value that it spells, or as it is."""
    number = read_number(text)
    if number is not None:
        return number
    if len(text) < 40 and _NUMBER.fullmatch(text):
        return float(text) if not text.lstrip("+-").isdecimal() else int(text)
    return {"true": True, "false": False}.get(text.lower(), text)


def value_of(word: Word | None) -> Value | None:
    """A word's value; None where there is no word, True where it is a flag's."""
    return None if word is None else word.unknown or scalar(word.text or "")


def product(*values: Value | None) -> Value | None:
    """The product of counts; None where one is not stated."""
    if any(value is None or (isinstance(value, (str, tuple, float))) for value in values):
        return None
    if (unknown := together(values)) is not None:
        return unknown
    total = 1
    for value in values:
        total *= value if isinstance(value, int) else 1
    return total


def _quotient(total: Value | None, by: Value | None) -> Value | None:
    if isinstance(total, Unknown) or isinstance(by, Unknown):
        return total if isinstance(total, Unknown) else by
    if isinstance(total, int) and isinstance(by, int) and by and total % by == 0:
        return total // by
    return None


def count(value: Value | None, what: str) -> Value | None:
    """A count; a word such as ``gpu`` or ``1:4`` is known only when it runs."""
    if isinstance(value, str):
        return Unknown(f"{what} {value} is settled when it runs")
    return value if isinstance(value, (int, Unknown)) else None


def of_launch(launch: Launch) -> Facts:
    """The size of a launch and how it is started."""
    facts = Facts(place=launch.place)
    _slurm(launch, facts)
    inner = launch.launcher
    facts.put("launcher", inner)
    facts.put("several_hosts_by", _spreads(launch))
    if inner == "torchrun":
        _torchrun(launch, facts)
    elif inner == "deepspeed":
        _deepspeed(launch, facts)
    elif inner == "accelerate":
        _accelerate(launch, facts)
    elif inner == "mpirun":
        _mpirun(launch, facts)
    elif inner == "srun":
        facts.put("nodes", facts.get("slurm.step_nodes"))
        facts.put("world_size", facts.get("slurm.tasks"))
        facts.put("processes_per_node", facts.get("slurm.tasks_per_node"))
    if facts.get("world_size") is None:
        facts.put("world_size", product(facts.get("nodes"), facts.get("processes_per_node")))
    _environment(launch.environment, facts)
    _gpus(launch, facts)
    for layer in launch.layers:
        for name, word in layer.options.items():
            facts.put(f"{layer.name}.{name.replace('-', '_')}", True if word is None else value_of(word))
        if layer.opaque:
            facts.hidden[layer.name] = layer.opaque
    _output(launch, facts)
    return facts


def _option(layer: Layer | None, *names: str) -> Value | None:
    if layer is None:
        return None
    for name in names:
        if name in layer.options:
            word = layer.options[name]
            return True if word is None else value_of(word)
    return layer.opaque


def _spreads(launch: Launch) -> str:
    """What starts the command on every host: a launcher around it, a login to each; empty where nothing does."""
    if launch.layer("srun"):
        return "srun"
    if launch.layer("mpirun"):
        return "mpirun"
    remote = {"ssh", "pdsh", "clush", "kubectl"}
    return next((word.text or "" for words in launch.wrappers for word in words[:1] if word.text in remote), "")


def _slurm(launch: Launch, facts: Facts) -> None:
    batch, step = launch.layer("sbatch"), launch.layer("srun")
    if batch is None and step is None:
        return
    nodes = count(_option(batch, "nodes"), "--nodes")
    facts.put("slurm.nodes", nodes)
    step_nodes = count(_option(step, "nodes"), "--nodes") if step else None
    step_nodes = nodes if step_nodes is None else step_nodes
    per_node = count(_option(step, "ntasks-per-node"), "--ntasks-per-node")
    tasks = count(_option(step, "ntasks"), "--ntasks")
    if tasks is None and per_node is None:
        tasks = count(_option(batch, "ntasks"), "--ntasks")
        per_node = count(_option(batch, "ntasks-per-node"), "--ntasks-per-node") if tasks is None else None
    if tasks is None:
        per_node = 1 if per_node is None else per_node
        tasks = product(step_nodes, per_node)
    else:
        per_node = _quotient(tasks, step_nodes)
    facts.put("slurm.step_nodes", step_nodes)
    facts.put("slurm.tasks", tasks)
    facts.put("slurm.tasks_per_node", per_node)
    facts.put("slurm.seconds", _seconds(_option(step, "time") or _option(batch, "time")))
    if step is not None:
        facts.put("srun", True)


def _seconds(limit: Value | None) -> Value | None:
    """A time limit of Slurm in seconds: minutes, minutes:seconds, hours:minutes:seconds, days-hours[:…]."""
    if isinstance(limit, (Unknown, type(None))):
        return limit
    days, dash, rest = str(limit).rpartition("-")
    parts = rest.split(":")
    if not all(read_number(part) is not None for part in [*parts, *([days] if dash else [])]) or len(parts) > 3:
        return None
    numbers = [int(part) for part in parts]
    if dash:
        units = (3600, 60, 1)
        return int(days) * 86400 + sum(n * u for n, u in zip(numbers, units, strict=False))
    short = {1: (60,), 2: (60, 1), 3: (3600, 60, 1)}[len(numbers)]
    return sum(n * u for n, u in zip(numbers, short, strict=True))


def _torchrun(launch: Launch, facts: Facts) -> None:
    layer = launch.layer("torchrun")
    assert layer is not None
    environment = launch.environment
    nodes = _option(layer, "nnodes") or value_of(environment.get("PET_NNODES")) or 1
    if isinstance(nodes, str) and (ends := nodes.split(":")) and len(ends) == 2 and ends[0] == ends[1]:
        nodes = scalar(ends[0])
    facts.put("nodes", 1 if "standalone" in layer.options else count(nodes, "--nnodes"))
    per_node = _option(layer, "nproc-per-node") or value_of(environment.get("PET_NPROC_PER_NODE")) or 1
    facts.put("processes_per_node", count(per_node, "--nproc-per-node"))
    if facts.get("srun"):
        facts.put("agents_per_node", facts.get("slurm.tasks_per_node"))


def _deepspeed(launch: Launch, facts: Facts) -> None:
    layer = launch.layer("deepspeed")
    nodes, gpus = count(_option(layer, "num_nodes"), "--num_nodes"), count(_option(layer, "num_gpus"), "--num_gpus")
    include = _option(layer, "include")
    if isinstance(include, str):
        hosts = include.split("@")
        slots = [host.partition(":")[2].split(",") for host in hosts]
        nodes, gpus = len(hosts), len(slots[0]) if all(len(s) == len(slots[0]) and s[0] for s in slots) else gpus
    hostfile = _option(layer, "hostfile")
    if hostfile is not None and (nodes is None or gpus is None):
        why = Unknown(f"the hostfile {hostfile if isinstance(hostfile, str) else ''} is read when it runs")
        nodes, gpus = nodes or why, gpus or why
    facts.put("nodes", nodes or Unknown("deepspeed counts the nodes in /job/hostfile; --num_nodes says how many"))
    facts.put("processes_per_node", gpus or Unknown("deepspeed counts the GPUs of the node; --num_gpus says how many"))


def _accelerate(launch: Launch, facts: Facts) -> None:
    layer = launch.layer("accelerate")
    world = count(_option(layer, "num_processes"), "--num_processes")
    nodes = count(_option(layer, "num_machines"), "--num_machines")
    if world is None:
        world = Unknown("accelerate takes the number of processes from its configuration; --num_processes says it")
    facts.put("world_size", world)
    facts.put("nodes", nodes if nodes is not None else 1)
    facts.put("processes_per_node", _quotient(world, facts.get("nodes")))


def _mpirun(launch: Launch, facts: Facts) -> None:
    layer = launch.layer("mpirun")
    world = count(_option(layer, "np"), "-np")
    per_node = count(_option(layer, "npernode"), "-npernode")
    mapping = _option(layer, "map-by")
    if isinstance(mapping, str) and (found := re.match(r"ppr:(\d+):node", mapping)):
        per_node = int(found[1])
    hosts = _option(layer, "host")
    nodes: Value | None = len(hosts.split(",")) if isinstance(hosts, str) else None
    if nodes is None:
        nodes = _quotient(world, per_node)
    facts.put("nodes", nodes)
    facts.put("processes_per_node", per_node if per_node is not None else _quotient(world, nodes))
    facts.put("world_size", world)


def _environment(environment: Mapping[str, Word], facts: Facts) -> None:
    for name, word in environment.items():
        if name != "PATH":
            facts.put(f"env.{name}", word.value if word.unknown else scalar(word.text or ""))


def _gpus(launch: Launch, facts: Facts) -> None:
    """GPUs that the scheduler gives to a node, and those that the processes are allowed to see."""
    for layer in (launch.layer("srun"), launch.layer("sbatch")):
        if facts.get("gpus_per_node") is not None:
            break
        for name in ("gpus-per-node", "gres"):
            said = _option(layer, name)
            if isinstance(said, str) and name == "gres" and "gpu" not in said:
                continue
            facts.put("gpus_per_node", gpu_count(said))
    visible = facts.get("env.CUDA_VISIBLE_DEVICES")
    if isinstance(visible, Unknown):
        facts.put("visible_gpus", visible)
    elif isinstance(visible, (str, int)) and not isinstance(visible, bool):
        facts.put("visible_gpus", len([one for one in str(visible).split(",") if one.strip()]))


def gpu_count(said: Value | None) -> Value | None:
    """The number in ``8``, ``h100:8`` or ``gpu:h100:8``."""
    if isinstance(said, str):
        found = _GPUS.search(said)
        return int(found[1]) if found else None
    return said if isinstance(said, (int, Unknown)) else None


def _output(launch: Launch, facts: Facts) -> None:
    known = [word.text for word in launch.files if word.text and word.text != "/dev/null"]
    if known:
        facts.put("output_file", known[0])
    if any(word.text == "/dev/null" for word in launch.files):
        facts.put("output_dropped", True)
    containers = [words for words in launch.wrappers if words[0].text in ("docker", "podman")]
    for words in containers:
        texts = [word.text or word.start for word in words]
        facts.put("container", True)
        if any(t.startswith(("--shm-size", "--ipc=host")) for t in texts) or "--ipc" in texts:
            facts.put("container_shm", True)
        for at, text in enumerate(texts):
            name, found, rest = (texts[at + 1] if text in ("-e", "--env") and at + 1 < len(texts) else "").partition(
                "="
            )
            if found:
                facts.put(f"env.{name}", scalar(rest))
