"""Arguments of a training program as settings: Megatron's options, Hydra's ``a.b=c``, options of other programs."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import files

import msgspec

from correlator.preflight.facts import Facts, scalar
from correlator.preflight.model import Place, Scalar, Setting, Unknown, Value, Word


class _Megatron(msgspec.Struct, frozen=True):
    marks: frozenset[str]
    flags: frozenset[str]
    values: frozenset[str]
    spelt: dict[str, str]
    default: dict[str, Scalar]

    @property
    def names(self) -> frozenset[str]:
        return self.flags | self.values


class _Nemo(msgspec.Struct, frozen=True):
    roots: frozenset[str]
    marks: frozenset[str]
    spelt: dict[str, str]
    default: dict[str, Scalar]


class _Known(msgspec.Struct, frozen=True):
    megatron: _Megatron
    nemo: _Nemo


@lru_cache(maxsize=1)
def known() -> _Known:
    """The names that the rules speak about."""
    text = files("correlator.preflight").joinpath("data/settings.toml").read_text("utf-8")
    return msgspec.convert(tomllib.loads(text), _Known)


def read_arguments(words: Sequence[Word], place: Place | None, facts: Facts) -> dict[str, Setting]:
    """Options of a program, ``-`` in their names as ``_``; several values of one option are a tuple.

    Words that may be anything (an unquoted variable that is not known) hide options: ``facts.hidden`` is told.
    """
    options: dict[str, Setting] = {}
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word.many and not word.start.startswith("-"):
            for piece in word.pieces:
                if isinstance(piece, Unknown):
                    _hide(piece, place, options, facts)
            continue
        start = word.start
        split = word.partition("=")
        if start.startswith("--") and len(start) > 2:
            if split:
                name, values = split[0], [split[1]]
            else:
                name, values = start, []
                while at < len(words) and not words[at].start.startswith("--") and not words[at].many:
                    values.append(words[at])
                    at += 1
            options[name.lstrip("-").replace("-", "_")] = Setting(_value(values), place)
        elif split and not start.startswith("-"):
            options[split[0].lstrip("+~")] = Setting(_value([split[1]]), place)  # Hydra
    return options


def _hide(unknown: Unknown, place: Place | None, options: dict[str, Setting], facts: Facts) -> None:
    """Takes in words that are not known: the options that may be among them, or all that are not seen."""
    if unknown.options is None:
        facts.hidden["program"] = Unknown(f"it may be among words that are not known: {unknown.why}")
        return
    for option in unknown.options:
        options.setdefault(option.lstrip("-").replace("-", "_"), Setting(unknown, place))


def _value(words: Sequence[Word]) -> Value:
    if not words:
        return True
    values = [word.unknown or scalar(word.text or "") for word in words]
    unknown = next((value for value in values if isinstance(value, Unknown)), None)
    if unknown is not None:
        return unknown
    return values[0] if len(values) == 1 else tuple(v for v in values if not isinstance(v, Unknown))


def take_options(options: dict[str, Setting], facts: Facts) -> None:
    """Puts a program's options into the facts, and says whose they are."""
    names = known().megatron
    facts.program_names = names.names
    hydra = {name.rpartition(".")[2] for name in options if name.startswith(("model.", "trainer."))}
    if len(names.marks & set(options)) >= 2:
        facts.frameworks.add("megatron")
    if len(known().nemo.marks & hydra) >= 1:
        facts.frameworks.add("nemo")
    for name, setting in options.items():
        facts.settings[f"arg.{name}"] = setting
    if "megatron" in facts.frameworks:
        for name, setting in options.items():
            _put_megatron(name, setting, facts)
    if "nemo" in facts.frameworks:
        take_nemo(options, facts)
    for mark, framework in (
        ("per_device_train_batch_size", "transformers"),
        ("deepspeed", "deepspeed"),
        ("deepspeed_config", "deepspeed"),
        ("job.config_file", "torchtitan"),
    ):
        if mark in options:
            facts.frameworks.add(framework)
    if "torchtitan" in facts.frameworks:
        for name, setting in options.items():
            if "." in name:
                facts.settings[f"tt.{name}"] = setting


def _put_megatron(name: str, setting: Setting, facts: Facts) -> None:
    names = known().megatron
    spelt = names.spelt.get(name, name)
    if spelt.startswith("!"):
        facts.settings[spelt[1:]] = Setting(False, setting.place)
    elif spelt in names.flags:
        # A flag of argparse takes no value: what follows it is the program's own business.
        facts.settings[spelt] = setting if isinstance(setting.value, bool) else Setting(True, setting.place)
    elif spelt in names.values:
        facts.settings[spelt] = setting


def take_nemo(options: dict[str, Setting], facts: Facts) -> None:
    """Keys of NeMo's configuration under the names of Megatron's arguments, and ``nemo.trainer.…`` as they are."""
    nemo, names = known().nemo, known().megatron.names
    for key, setting in options.items():
        root, _, last = key.rpartition(".")
        name = nemo.spelt.get(last, last)
        name = known().megatron.spelt.get(name, name)
        if root in nemo.roots and name in names and setting.value != "null":
            facts.settings.setdefault(name, setting)
        facts.settings[f"nemo.{key}"] = setting
    for size, key in (("nodes", "trainer.num_nodes"), ("processes_per_node", "trainer.devices")):
        if key in options and not isinstance(options[key].value, (str, tuple)):
            facts.settings.setdefault(f"nemo.{size}", options[key])


def fill_defaults(facts: Facts) -> None:
    """What the framework takes for options that are not given and cannot hide anywhere."""
    for framework, names in (("megatron", known().megatron.default), ("nemo", known().nemo.default)):
        if framework in facts.frameworks:
            for name, value in names.items():
                hidden = facts.hidden.get("program")
                facts.settings.setdefault(name, Setting(value if hidden is None else hidden))
