"""Whose configuration file a document is, and what it says, put into the facts."""

from __future__ import annotations

from collections.abc import Mapping

from correlator.preflight import kubernetes
from correlator.preflight.facts import Facts
from correlator.preflight.model import Setting
from correlator.preflight.programs import known, take_nemo, take_options

#: Sizes of a launch among the arguments that a program has parsed or printed.
SIZES = ("world_size", "nodes", "processes_per_node")


def prefix_of(framework: str) -> str:
    """What stands before the names of settings that only this framework's file has."""
    return {"deepspeed": "ds", "torchtitan": "tt"}.get(framework, "program")


def framework_of(document: Mapping[str, Setting]) -> str | None:
    """Whose configuration file a document is, by its keys."""
    keys = set(document)
    heads = {key.partition(".")[0] for key in keys}
    if kubernetes.is_job(document):
        return "kubernetes"
    if "train_batch_size" in keys or "train_micro_batch_size_per_gpu" in keys or "zero_optimization" in heads:
        return "deepspeed"
    if (
        heads & {"parallelism", "training"}
        and heads & {"job", "model", "optimizer", "parallelism"}
        and (
            any(key.startswith("parallelism.") and key.endswith(("_degree", "schedule")) for key in keys)
            or {"training.local_batch_size", "training.batch_size"} & keys
        )
    ):
        return "torchtitan"
    names = known()
    if any(key.rpartition(".")[0] in names.nemo.roots and key.rpartition(".")[2] in names.nemo.marks for key in keys):
        return "nemo" if heads & {"trainer", "exp_manager"} else "megatron"
    if {"distributed_type", "num_processes", "compute_environment"} & keys:
        return "accelerate"
    return "megatron" if len(names.megatron.marks & {key.rpartition(".")[2] for key in keys}) >= 2 else None


def take_config(document: Mapping[str, Setting], framework: str, facts: Facts) -> None:
    """Puts a configuration file into the facts. What the command line says goes first."""
    facts.frameworks.add(framework)
    if framework == "nemo":
        facts.program_names = known().megatron.names
        take_nemo(dict(document), facts)
    elif framework == "megatron":
        flat = {key.rpartition(".")[2].replace("-", "_"): setting for key, setting in document.items()}
        given = dict(facts.settings)
        take_options(flat, facts)
        for size in SIZES:
            if size in flat:
                facts.settings.setdefault(size, flat[size])
        facts.settings |= given
    elif framework == "accelerate":
        for key, size in (("num_processes", "world_size"), ("num_machines", "nodes")):
            if key in document and not isinstance(facts.get(size), int):
                facts.settings[size] = document[key]
        for key, setting in document.items():
            facts.settings[f"accelerate.{key}"] = setting
    else:
        for key, setting in document.items():
            facts.settings.setdefault(f"{prefix_of(framework)}.{key}", setting)
