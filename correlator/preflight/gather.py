"""Everything a launch would read, gathered: scripts and those they call, configuration files that options name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from correlator.errors import UsageError
from correlator.preflight import kubernetes
from correlator.preflight.configs import read_bytes, read_config
from correlator.preflight.expansion import words_of
from correlator.preflight.facts import Facts, of_launch, value_of
from correlator.preflight.frameworks import SIZES, framework_of, prefix_of, take_config
from correlator.preflight.launch import DISTRIBUTED, Launch, Layer, take_apart
from correlator.preflight.launch import take_options as take_layer
from correlator.preflight.model import Place, Setting, Unknown, Value, Word
from correlator.preflight.programs import read_arguments, take_options
from correlator.preflight.shell import Command, Script, directives_of, read_script

#: Scripts that call scripts.
_DEEPEST = 5
#: Options that name a configuration file: whose it is.
_CONFIG_OPTIONS = {
    "deepspeed": "deepspeed", "deepspeed_config": "deepspeed", "yaml_cfg": "megatron", "job.config_file": "torchtitan",
}  # fmt: skip
_ASKED = "give --script, --config or, behind --, a launch command"


@dataclass
class Gathered:
    """Facts of each launch, and what was met on the way."""

    facts: list[Facts] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def gather(
    args: Sequence[str] | Mapping[str, Any] | object,
    scripts: Iterable[str | Path],
    configs: Iterable[str | Path],
    environment: Mapping[str, str],
) -> Gathered:
    """Facts of everything that is named. Raises UsageError where that is nothing."""
    found = Gathered()
    inherited = {name: Word((value,)) for name, value in environment.items()}
    for script in scripts:
        _of_script(Path(script), [], [], inherited, found, 0)
    parsed = _parsed(args)
    if parsed is not None:
        found.facts.append(_of_parsed(parsed, inherited))
    elif isinstance(args, Sequence) and args:
        place = Place("command line", 0, " ".join(map(str, args)))
        command = Command(tuple(words_of(map(str, args))), inherited, place)
        launch = take_apart(command)
        if launch is None or not _is_launch(launch):
            raise UsageError(f"{args[0]} starts no training that preflight knows: srun, torchrun, deepspeed, python …")
        _of_launch(launch, Path(), None, found, 0)
    for config in configs:
        _of_config(Path(config), found)
    if not found.facts:
        why = "; ".join(["no launch command was found in it", *found.notes]) if scripts else _ASKED
        raise UsageError(f"nothing to check: {why}")
    return found


def _parsed(args: Any) -> Mapping[str, Any] | None:
    """Arguments that a program has already parsed; None for words of a command."""
    if isinstance(args, Mapping):
        return args
    return None if isinstance(args, (str, Sequence)) else vars(args)


def _of_parsed(values: Mapping[str, Any], environment: Mapping[str, Word]) -> Facts:
    options = {
        str(name): Setting(tuple(value) if isinstance(value, list) else value)
        for name, value in values.items()
        if isinstance(value, (bool, int, float, str, list, tuple))
    }
    facts = Facts()
    take_options(options, facts)
    for name in SIZES:
        if name in options:
            facts.settings[name] = options[name]
    for name, word in environment.items():
        facts.put(f"env.{name}", word.value)
    return facts


def _of_script(
    path: Path, layers: list[Layer], arguments: list[Word], environment: Mapping[str, Word], found: Gathered, depth: int
) -> None:
    data = read_bytes(path)
    name = str(path)
    directives = directives_of(data, name)
    batch: list[Layer] = list(layers)
    if words := [Word((part,)) for text, _ in directives for part in text.split("#")[0].split()]:
        own, _ = take_layer(words, "sbatch")
        outer = next((layer for layer in layers if layer.name == "sbatch"), None)
        batch = [Layer("sbatch", {**own.options, **(outer.options if outer else {})})]
        batch += [layer for layer in layers if layer.name != "sbatch"]
    script = read_script(data, name, {**_of_slurm(batch), **environment}, arguments)
    found.notes += script.notes
    launches = [launch for command in script.commands if (launch := take_apart(command, batch)) is not None]
    known_ones = _that_train([one for one in launches if _is_launch(one)])
    if not any(one.launcher in DISTRIBUTED for one in known_ones):
        known_ones = [one for one in known_ones if one.script or one.shell_text] + [
            one for one in known_ones[-1:] if not (one.script or one.shell_text)
        ]
    else:
        known_ones = [one for one in known_ones if one.launcher in DISTRIBUTED or one.script or one.shell_text]
    first = len(found.facts)
    for launch in known_ones:
        _of_launch(launch, path.parent, script, found, depth)
    for facts in found.facts[first:]:
        _limits(script, facts)


def _limits(script: Script, facts: Facts) -> None:
    """The limits that a script sets with ``ulimit``."""
    for command in script.commands:
        if command.words[0].text == "ulimit" and len(command.words) == 3:
            flag = (command.words[1].text or "").lstrip("-SH")
            if flag:
                facts.put(f"ulimit.{flag}", value_of(command.words[2]), command.place)


def _that_train(launches: list[Launch]) -> list[Launch]:
    """Without ``srun nvidia-smi`` and ``srun mkdir`` beside a launch that starts a program of Python."""
    training = [
        one for one in launches if one.layer("python") or one.launcher in ("torchrun", "deepspeed", "accelerate")
    ]
    return [one for one in launches if one in training or one.script or one.shell_text] if training else launches


def _is_launch(launch: Launch) -> bool:
    return launch.program is not None or launch.script is not None or launch.shell_text is not None


def _of_slurm(layers: Sequence[Layer]) -> dict[str, Word]:
    """Variables that Slurm sets from the script's own options; options of the sbatch command would override them."""
    batch = next((layer for layer in layers if layer.name == "sbatch"), None)
    if batch is None:
        return {}
    given: dict[str, Word] = {}
    for option, names in (
        ("nodes", ("SLURM_NNODES", "SLURM_JOB_NUM_NODES")),
        ("ntasks", ("SLURM_NTASKS", "SLURM_NPROCS")),
        ("ntasks-per-node", ("SLURM_NTASKS_PER_NODE",)),
        ("gpus-per-node", ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE")),
        ("cpus-per-task", ("SLURM_CPUS_PER_TASK",)),
        ("job-name", ("SLURM_JOB_NAME",)),
    ):
        word = batch.options.get(option)
        if word is not None and (word.text or "").isascii():
            plain = option == "job-name" or (word.text or "").isdecimal()
            for name in names if plain else ():
                given[name] = word
    nodes, each = given.get("SLURM_NNODES"), given.get("SLURM_NTASKS_PER_NODE")
    if nodes and each and "SLURM_NTASKS" not in given:
        total = Word((str(int(nodes.text or 0) * int(each.text or 0)),))
        given |= {"SLURM_NTASKS": total, "SLURM_NPROCS": total}
    return given


def _of_launch(launch: Launch, folder: Path, script: Script | None, found: Gathered, depth: int) -> None:
    """Facts of a launch, or of what the script or shell text in it launches."""
    if launch.shell_text is not None:
        text, held = _with_stand_ins(launch.shell_text)
        if text is None:
            unknown = launch.shell_text.unknown
            why = unknown.why if unknown else ""
            found.notes.append(f"{_where(launch.place)}: text for the shell is not known: {why}")
            return
        given = {**launch.environment, **held}
        inner = read_script(text.encode(), launch.place.file, given, launch.arguments[1:])
        for one in inner.commands:
            piped, output = one.piped or launch.piped, (*launch.files, *one.files)
            environment = {name: word for name, word in one.environment.items() if name not in held}
            command = Command(one.words, environment, launch.place, output, piped)
            again = take_apart(command, launch.layers)
            if again is not None and _is_launch(again) and depth < _DEEPEST:
                _of_launch(again, folder, script, found, depth + 1)
        return
    if launch.script is not None:
        path = _find(launch.script.text, folder)
        if path is None or depth >= _DEEPEST:
            what = launch.script.text or "a script whose name is not known"
            found.notes.append(f"{_where(launch.place)}: {what} is not read")
            return
        _of_script(path, list(launch.layers), list(launch.arguments), launch.environment, found, depth + 1)
        return
    facts = of_launch(launch)
    options = read_arguments(launch.arguments, launch.place, facts)
    if launch.program is not None and launch.program.text:
        facts.put("program", launch.program.text)
    if launch.layer("deepspeed"):
        facts.frameworks.add("deepspeed")
    take_options(options, facts)
    for name, framework in _CONFIG_OPTIONS.items():
        if name in options:
            _named_config(options[name].value, framework, facts, folder, script, found)
    found.facts.append(facts)


def _with_stand_ins(text: Word) -> tuple[str | None, dict[str, Word]]:
    """Text for a shell in which a variable stands for each piece that is not known, and those variables.

    None where not even the command is known, or where single quotes keep a variable from being read as one.
    """
    if not text.start.strip():
        return None, {}
    held: dict[str, Word] = {}
    known = ""
    for number, piece in enumerate(text.pieces):
        if isinstance(piece, Unknown):
            if known.count("'") % 2:
                return None, {}
            name = f"CORRELATOR_UNKNOWN_{number}"
            held[name] = Word((piece,))
            piece = f"${{{name}}}"
        known += piece
    return known, held


def _where(place: Place) -> str:
    return f"{place.file}:{place.line}" if place.line else place.file


def _find(text: str | None, folder: Path) -> Path | None:
    """A file that a script names, seen from its own folder or from here."""
    if not text:
        return None
    for path in (folder / text, Path(text)):
        try:
            if path.is_file():
                return path
        except (OSError, ValueError):
            continue
    return None


def _named_config(
    value: Value, framework: str, facts: Facts, folder: Path, script: Script | None, found: Gathered
) -> None:
    if not isinstance(value, str):
        return
    facts.frameworks.add(framework)
    name = Path(value).name
    written = script.written.get(name) if script else None
    if written is not None and written[0].text is None:
        unknown = written[0].unknown
        facts.hidden[prefix_of(framework)] = unknown or Unknown(f"{name} is not known")
        return
    path = _find(value, folder)
    if written is None and path is None:
        facts.hidden[prefix_of(framework)] = Unknown(f"{value} is not here to be read")
        found.notes.append(f"{value} is named in the launch and is not here to be read")
        return
    text = written[0].text or "" if written is not None else read_bytes(path or Path()).decode(errors="replace")
    for document in read_config(text, value):
        take_config(document, framework, facts)


def _of_config(path: Path, found: Gathered) -> None:
    """A file the user names: it completes the launches that were read, or is checked alone."""
    documents = read_config(read_bytes(path).decode(errors="replace"), str(path))
    used = False
    for document in documents:
        framework = framework_of(document)
        if framework is None:
            continue
        used = True
        if framework == "kubernetes":
            for launch in kubernetes.launches(document):
                _of_launch(launch.launch, path.parent, None, found, 0)
                if found.facts:
                    kubernetes.add_facts(launch, found.facts[-1])
            continue
        if not found.facts:
            found.facts.append(Facts(place=Place(str(path), 0)))
        for facts in found.facts:
            take_config(document, framework, facts)
    if not used:
        raise UsageError(
            f"{path} is no configuration that preflight knows: Megatron-LM, NeMo, DeepSpeed, torchtitan, accelerate, "
            "a Kubernetes PyTorchJob or JobSet"
        )
