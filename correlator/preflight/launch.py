"""A launch command taken apart: launchers from the outside in, then the program and its arguments.

``srun -N 4 apptainer exec img.sif torchrun --nproc-per-node 8 train.py --lr 1e-4`` has the layers srun and torchrun,
the program ``train.py`` and two words of arguments. Which options take a value stands in ``data/launchers.toml``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib.resources import files

import msgspec

from correlator.preflight.model import Place, Unknown, Word
from correlator.preflight.shell import Command

_PYTHON = re.compile(r"python[0-9.]*")
#: Modules that are a launcher when Python runs them.
_MODULES = {
    "torch.distributed.run": "torchrun", "torch.distributed.launch": "torchrun",
    "deepspeed": "deepspeed", "deepspeed.launcher.runner": "deepspeed", "deepspeed.launcher.launch": "deepspeed",
    "accelerate.commands.launch": "accelerate",
}  # fmt: skip
_SAME = {"mpiexec": "mpirun", "orterun": "mpirun", "prterun": "mpirun"}
_SHELLS = ("bash", "sh", "zsh", "dash")
#: Launchers that start processes of one job on several devices or machines.
DISTRIBUTED = ("srun", "torchrun", "deepspeed", "accelerate", "mpirun")


class _Spec(msgspec.Struct, frozen=True):
    flags: tuple[str, ...]
    aliases: dict[str, str]
    pairs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Layer:
    """One launcher with its options; a flag's value is None. ``opaque``: options may hide in unknown words."""

    name: str
    options: Mapping[str, Word | None]
    opaque: Unknown | None = None


@dataclass(frozen=True)
class Launch:
    """A launch. ``inner``: text for a shell (``bash -c``) or a script file that starts the rest."""

    layers: tuple[Layer, ...]
    program: Word | None
    arguments: tuple[Word, ...]
    environment: Mapping[str, Word]
    place: Place
    files: tuple[Word, ...] = ()
    piped: bool = False
    wrappers: tuple[tuple[Word, ...], ...] = ()
    script: Word | None = None
    shell_text: Word | None = None

    def layer(self, name: str) -> Layer | None:
        """The innermost layer of a launcher."""
        return next((layer for layer in reversed(self.layers) if layer.name == name), None)

    @property
    def launcher(self) -> str:
        """The innermost launcher that starts ranks; ``python`` where there is none."""
        return next((layer.name for layer in reversed(self.layers) if layer.name in DISTRIBUTED), "python")


@lru_cache(maxsize=1)
def _data() -> dict[str, object]:
    return tomllib.loads(files("correlator.preflight").joinpath("data/launchers.toml").read_text("utf-8"))


@cache
def _spec(name: str) -> _Spec:
    return msgspec.convert(_data()[name], _Spec)


def _wrappers() -> Sequence[str]:
    found = _data()["wrappers"]
    return found if isinstance(found, list) else []


def take_options(words: Sequence[Word], launcher: str) -> tuple[Layer, list[Word]]:
    """The options in front and what stands behind them."""
    spec = _spec(launcher)
    options: dict[str, Word | None] = {}
    opaque: Unknown | None = None
    at = 0
    while at < len(words):
        word = words[at]
        if word.many and not word.start:
            opaque = opaque or word.unknown
            at += 1
            continue
        if word.text == "--":
            at += 1
            break
        if not word.start.startswith("-") or word.text == "-":
            break
        at += 1
        name, value = _name_and_value(word, spec)
        if value is None and name not in spec.flags:
            wanted = 2 if name in spec.pairs else 1
            value = words[at] if at < len(words) else Word(())
            at += wanted
        options[name] = value
        if launcher == "python" and name in ("m", "c"):
            break
    return Layer(launcher, options, opaque), list(words[at:])


def _name_and_value(word: Word, spec: _Spec) -> tuple[str, Word | None]:
    split = word.partition("=")
    bare, value = (split[0], split[1]) if split else (word.start, None)
    long = bare.startswith("--")
    name = bare.lstrip("-")
    name = spec.aliases.get(name, name)
    if not long and value is None and len(name) > 1 and name[0] in spec.aliases and name[1:].isdecimal():
        return spec.aliases[name[0]], Word((name[1:],))  # -N4
    return name, value


def take_apart(command: Command, outer: Sequence[Layer] = ()) -> Launch | None:
    """The launch that a command is; None for a command that starts no program of a job."""
    layers = list(outer)
    words = list(command.words)
    wrappers: list[tuple[Word, ...]] = []
    environment = dict(command.environment)
    program: Word | None = None
    script = shell_text = None
    while words:
        name = _base(words[0])
        if name is None:
            break
        rest = words[1:]
        if name in _wrappers():
            inner = _next_known(rest)
            wrappers.append(tuple(words[: 1 + inner]))
            if name == "env":
                _take_environment(rest[:inner], environment)
            words = rest[inner:]
        elif name in _SHELLS:
            shell_text, script, words = _of_shell(rest)
            break
        elif _PYTHON.fullmatch(name):
            layer, words = take_options(rest, "python")
            layers.append(layer)
            module = layer.options.get("m")
            if module is not None and (launcher := _MODULES.get(module.text or "")):
                words = [Word((launcher,)), *words]
                continue
            if "c" in layer.options:
                break
            program = module if module is not None else (words.pop(0) if words else None)
            break
        elif (launcher := _SAME.get(name, name)) in (*DISTRIBUTED, "sbatch"):
            if launcher == "accelerate" and rest and rest[0].text == "launch":
                rest = rest[1:]
            elif launcher == "accelerate" and rest and not rest[0].start.startswith("-"):
                return None
            layer, words = take_options(rest, launcher)
            layers.append(layer)
            if launcher == "mpirun":
                _take_forwarded(rest, environment)
            if launcher in ("torchrun", "deepspeed", "accelerate"):
                program = words.pop(0) if words else None
                break
            if launcher == "sbatch":
                script, words = (words[0] if words else None), words[1:]
                break
        elif name.endswith((".sh", ".sbatch", ".slurm")) and not script:
            script, words = words[0], rest
            break
        else:
            program = words[0] if layers else None
            words = rest
            break
    if not layers and program is None and script is None and shell_text is None:
        return None
    return Launch(
        tuple(layers), program, tuple(words), environment, command.place, command.files, command.piped,
        tuple(wrappers), script, shell_text,
    )  # fmt: skip


def _base(word: Word) -> str | None:
    """The command's name without its folder, which may be unknown."""
    text = word.text
    if text is None:
        last = word.pieces[-1]
        return last.rpartition("/")[2] if isinstance(last, str) and "/" in last else None
    return text.rpartition("/")[2]


def _next_known(words: Sequence[Word]) -> int:
    """Where behind a wrapper the next launcher, shell or interpreter stands; the end where there is none."""
    for at, word in enumerate(words):
        name = _base(word) or ""
        if _SAME.get(name, name) in (*DISTRIBUTED, *_SHELLS) or _PYTHON.fullmatch(name) or name.endswith(".sh"):
            return at
    return len(words)


def _take_environment(words: Sequence[Word], environment: dict[str, Word]) -> None:
    for word in words:
        if (split := word.partition("=")) and not split[0].startswith("-"):
            environment[split[0]] = split[1]


def _take_forwarded(words: Sequence[Word], environment: dict[str, Word]) -> None:
    """``-x NAME=value`` of Open MPI sets; ``-x NAME`` forwards what the shell has, which nobody states here."""
    for at, word in enumerate(words[:-1]):
        if word.text == "-x":
            _take_environment(words[at + 1 : at + 2], environment)
            name = words[at + 1].text or ""
            if name and "=" not in name and name not in environment:
                environment[name] = Word((Unknown(f"{name} is forwarded from the shell that starts mpirun"),))


def _of_shell(words: Sequence[Word]) -> tuple[Word | None, Word | None, list[Word]]:
    """(text behind -c, script file, its arguments) of a call of a shell."""
    for at, word in enumerate(words):
        text = word.text or word.start
        if re.fullmatch(r"-[a-z]*c", text) and at + 1 < len(words):
            return words[at + 1], None, list(words[at + 2 :])
        if not text.startswith("-"):
            return None, word, list(words[at + 1 :])
    return None, None, []
